"""The explanation as text: every part, on modules by hand."""

import pytest

from regal_jax.compiler.explain import text as explain_text
from regal_jax.compiler.explain.explain import explain
from regal_jax.compiler.explain.source_lines import SourceLine
from regal_jax.compiler.xla.candidates import Search
from regal_jax.errors import OptionError

JVP = 'metadata={op_name="jit(step)/jvp(M)/sin" source_file="/home/me/model.py" source_line=7}'
BACK = (
    'metadata={op_name="jit(step)/transpose(jvp(M))/mul" source_file="/home/me/model.py" '
    "source_line=9}"
)
MODULE = f"""HloModule step, is_scheduled=true

ENTRY e {{
  w = f32[1024] parameter(0), metadata={{op_name="params['w']"}}
  a = f32[16,1024] broadcast(w), dimensions={{1}}, {JVP}
  b = f32[16,2048] custom-call(w), custom_call_target="f", {JVP}
  c = f32[16,16] custom-call(b), custom_call_target="f", {BACK}
  d = f32[1024] custom-call(a, c), custom_call_target="f", {BACK}
  ROOT n = f32[1024] add(w, d), {BACK}
}}
"""


def lines_of(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_whole_report():
    one = explain(MODULE)
    text = explain_text.explanation_text(one)
    assert text == text.strip()
    lines = lines_of(text)
    assert lines[0] == "step: peak memory 197 KiB, at step 3 of 6"
    assert lines[1] == (
        "c (custom-call) runs there: jit(step)/transpose(jvp(M))/mul, me/model.py:9"
    )
    assert "parameters and constants 4.00 KiB 2.0 %" in lines
    assert "outputs 0 B 0.0 %" in lines
    assert "temporaries 193 KiB 98.0 %" in lines
    assert "Buffers in use at the peak, the largest 4 of 4" in lines
    assert "128 KiB f32[16,2048] temporary b 2 3 0 me/model.py:7" in lines
    assert "64.0 KiB f32[16,1024] temporary a 1 4 3 me/model.py:7" in lines
    assert "4.00 KiB f32[1024] parameter params['w'] 0 5 3" in lines
    flat = " ".join(lines)
    assert (
        "XLA allocates 201 KiB: parameters and constants 4.00 KiB, outputs of their own 4.00 KiB, "
        "temporaries 193 KiB (an estimate). That is 4.00 KiB more than is in use at the peak"
    ) in flat
    assert (
        "No order of the instructions needs less than 133 KiB: c, me/model.py:9, works on b "
        "f32[16,2048] (128 KiB), c f32[16,16] (1.00 KiB), beside what is there throughout "
        "(4.00 KiB)."
    ) in flat
    assert "Another order could lower the peak by 64.0 KiB (32.5 %) at most." in flat
    assert (
        "96.5 KiB 49.0 % split 3 arrays of 193 KiB first dimension 16, as in b f32[16,2048]"
        in lines
    )
    assert (
        "64.0 KiB 32.5 % recompute 1 array of 64.0 KiB me/model.py:7, idle for up to 3 steps"
        in lines
    )
    assert (
        "4.00 KiB 2.0 % donate 1 array of 4.00 KiB argument params; the peak in use becomes 197 KiB"
    ) in lines
    assert "Recompute: " in text
    assert "jax.checkpoint" in flat
    assert "donate_argnames" in flat
    assert "Make later" not in text
    assert "Orders compared" not in text
    assert max(map(len, text.splitlines())) < 140


def test_the_list_is_as_long_as_asked_for():
    one = explain(MODULE)
    assert "the largest 2 of 4" in explain_text.explanation_text(one, top=2)
    with pytest.raises(OptionError, match="top must be at least 1, got 0"):
        explain_text.explanation_text(one, top=0)


def test_orders_are_compared():
    one = explain(MODULE, search=Search(methods=("dp", "breadth_first")))
    lines = lines_of(explain_text.explanation_text(one))
    header = lines.index("Orders compared, the present one first")
    assert lines[header + 1] == "order temporaries of XLA saved peak peak saved"
    rows = {line.split()[0]: line for line in lines[header + 3 :]}
    assert set(rows) >= {"present", "dp"}
    assert rows["present"].endswith("197 KiB 0.0 %")
    assert rows["dp"].endswith("133 KiB 32.5 %")


def test_a_program_that_can_not_need_less():
    small = explain(
        "HloModule m, is_scheduled=true\nENTRY e {\n  x = f32[8] parameter(0)\n"
        "  ROOT y = f32[4] custom-call(x)\n}",
        search=True,
    )
    text = explain_text.explanation_text(small)
    assert "needs less than 48 B: the peak is at its bound." in text
    assert "Nothing found that saves a thousandth of the peak." in text
    assert "None: there is no other order that could need less." in text


def test_what_xla_makes_early_is_to_be_made_later():
    plain = MODULE.replace(f", {JVP}\n  b", "\n  b")
    text = explain_text.explanation_text(explain(plain))
    assert "make later 1 array of 64.0 KiB" in text
    assert "made by XLA, like a, idle for up to 3 steps" in text
    assert "Make later: " in text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (None, ""),
        (SourceLine("/home/me/a/model.py", 3), "a/model.py:3"),
        (SourceLine("C:\\me\\model.py", 3, "f"), "me/model.py:3 (f)"),
        (SourceLine("<stdin>", 3), "<stdin>:3"),
    ],
)
def test_places(source, expected):
    assert explain_text.place(source) == expected


def test_long_names_lose_their_middle():
    assert explain_text.shortened("short") == "short"
    assert explain_text.shortened("abcdefghij", 5) == "…ghij"
    assert explain_text.shortened("a\nb") == "a b"
