"""What would lower the peak: every kind by hand, and against counting again without an array."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given

from regal_jax.compiler.explain.recomputation import recipes, without
from regal_jax.compiler.explain.remedies import remedies
from regal_jax.compiler.explain.source_lines import SourceLine, origins
from regal_jax.compiler.xla.live_memory import live_memory
from regal_jax.graphs.importers.xla.text import parse_module
from tests.compiler.xla import hlo_strategies

FORWARD = 'metadata={op_name="jit(f)/jvp()/sin" source_file="/a.py" source_line=3}'
BACKWARD = 'metadata={op_name="jit(f)/transpose(jvp())/mul" source_file="/a.py" source_line=4}'


def remedies_of(body, advice="recompute", *, header="", others=""):
    """(remedies of a kind, names of what they are about, memory)."""
    text = f"HloModule m, is_scheduled=true{header}\n{others}\nENTRY e {{\n{body}\n}}\n"
    module = parse_module(text)
    memory = live_memory(module)
    found = [one for one in remedies(module, memory, origins(module, text)) if one.advice == advice]
    peak = int(memory.live_bytes().argmax())
    about = [
        sorted(memory.steps[memory.values[memory.held(n, peak)].step][1] for n in one.memories)
        for one in found
    ]
    return found, about, memory


WAITING = f"""
  x = f32[100] parameter(0)
  a = f32[100] broadcast(x), dimensions={{0}}, {FORWARD}
  b = f32[200] custom-call(x), custom_call_target="f", {BACKWARD}
  c = f32[1] custom-call(b), custom_call_target="f", {BACKWARD}
  ROOT r = f32[2] custom-call(a, c), custom_call_target="f", {BACKWARD}"""


def test_what_is_cheap_and_waits_is_recomputed():
    (one,), (about,), memory = remedies_of(WAITING)
    assert memory.live_bytes().tolist() == [400, 800, 1600, 1604, 812]
    assert one.advice == "recompute"
    assert about == ["a"]
    assert one.source == SourceLine("/a.py", 3)
    assert one.is_residual
    # Without a from step 2 to 3, the largest use is that of c: x, b, c.
    assert (one.saves, one.peak, one.num_bytes) == (400, 1204, 400)


def test_forward_to_forward_is_no_residual():
    (one,), _, _ = remedies_of(WAITING.replace("transpose(jvp())", "jvp()"))
    assert not one.is_residual
    (one,), _, _ = remedies_of(WAITING.replace("/jvp()/sin", "/transpose(jvp())/sin"))
    assert not one.is_residual


def test_a_reader_without_a_name_has_that_of_its_own_reader():
    others = """
f {
  p = f32[100] parameter(0)
  q = f32[1] parameter(1)
  ROOT d = f32[2] dot(p, q)
}"""
    body = (
        WAITING.rpartition("\n")[0]
        + f"""
  r = f32[2] fusion(a, c), kind=kCustom, calls=f
  ROOT s = f32[2] custom-call(r), custom_call_target="f", {BACKWARD}"""
    )
    (one,), _, _ = remedies_of(body, others=others)
    assert one.is_residual


def test_products_and_what_is_made_of_them_alone_are_kept():
    assert remedies_of(WAITING.replace("broadcast(x), dimensions={0}", "dot(x, x)"))[0] == []
    assert remedies_of(WAITING.replace("broadcast(x), dimensions={0}", "sort(x)"))[0] == []
    body = WAITING.replace(
        "  a = f32[100] broadcast(x), dimensions={0}",
        '  p = f32[100] custom-call(x), custom_call_target="f"\n  a = f32[100] negate(p)',
    )
    # p would have to be kept instead of a.
    assert remedies_of(body)[0] == []
    smaller = body.replace("f32[100] custom-call", "f32[10] custom-call").replace(
        "negate(p)", "broadcast(p), dimensions={}"
    )
    (one,), (about,), _ = remedies_of(smaller)
    assert about == ["a"]
    assert one.saves == 400 - 40


def test_chains_are_made_again_of_what_is_there():
    body = WAITING.replace(
        "  a = f32[100] broadcast(x), dimensions={0}",
        "  p = f32[100] sine(x)\n  q = f32[100] cosine(p)\n  a = f32[100] negate(q)",
    )
    (one,), (about,), _ = remedies_of(body)
    assert about == ["a"]
    assert one.saves == 400


def test_fusions_are_cheap_if_their_bodies_are():
    fused = WAITING.replace("broadcast(x), dimensions={0}", "fusion(x), kind=kLoop, calls=f")
    body = "\nf {{\n  p = f32[100] parameter(0)\n  ROOT r = f32[100] {}\n}}\n"
    (one,), _, _ = remedies_of(fused, others=body.format("sine(p)"))
    assert one.saves == 400
    assert remedies_of(fused, others=body.format("convolution(p, p)"))[0] == []


def test_what_is_needed_for_another_one_is_made_again_when_that_is():
    """b is made of a: if b is needed at step 5, a can't wait for its own reader at step 8."""
    body = f"""
  x = f32[100] parameter(0)
  a = f32[100] broadcast(x), dimensions={{0}}, {FORWARD}
  b = f32[100] reverse(a), dimensions={{0}}, {FORWARD}
  c = f32[200] custom-call(x), custom_call_target="f"
  d = f32[1] custom-call(c), custom_call_target="f"
  k = f32[1] custom-call(b, d), custom_call_target="f", {BACKWARD}
  l = f32[250] custom-call(k), custom_call_target="f"
  m = f32[1] custom-call(l), custom_call_target="f"
  ROOT r = f32[2] custom-call(a, m), custom_call_target="f", {BACKWARD}"""
    (one,), (about,), memory = remedies_of(body)
    live = memory.live_bytes().tolist()
    assert live == [400, 800, 1200, 2000, 2004, 1208, 1804, 1804, 812]
    assert about == ["a", "b"]
    assert (one.saves, one.peak) == (2004 - 1804, 1804)


SGD = """
  w = f32[100] parameter(0), metadata={op_name="params[\\'w\\']"}
  v = f32[50] parameter(1), metadata={op_name="params[\\'v\\']"}
  x = f32[100] parameter(2), metadata={op_name="x"}
  g = f32[100] custom-call(w, x), custom_call_target="f"
  n = f32[100] custom-call(w, g), custom_call_target="f"
  o = f32[50] custom-call(v), custom_call_target="f"
  ROOT t = (f32[100], f32[50]) tuple(n, o)"""


def test_arguments_are_donated_to_their_updates():
    (one,), (about,), _ = remedies_of(SGD, "donate")
    assert (one.advice, one.name, one.saves) == ("donate", "params", 600)
    assert about == ["v", "w"]
    # w, v, x, then g and at the update n, in w's place.
    assert one.peak == 400 + 200 + 400 + 400


def test_what_is_donated_or_read_later_is_not_donated():
    donated = ", input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }"
    assert remedies_of(SGD, "donate", header=donated)[0] == []
    late = SGD.replace("custom-call(v)", "custom-call(v, w, x)")
    (one,), (about,), _ = remedies_of(late, "donate")
    assert (one.name, one.saves, about) == ("params", 200, ["v"])
    other_type = SGD.replace("v = f32[50]", "v = s32[50]")
    (one,), (about,), _ = remedies_of(other_type, "donate")
    assert about == ["w"]


def test_arrays_of_one_first_dimension_are_split():
    body = """
  w = f32[8,8] parameter(0)
  x = f32[16,8] parameter(1)
  a = f32[16,20] custom-call(x, w), custom_call_target="f"
  b = f32[16,20] custom-call(a), custom_call_target="f"
  c = f32[8,8] custom-call(b), custom_call_target="f"
  d = f32[7,3] custom-call(c, a), custom_call_target="f"
  ROOT r = f32[] custom-call(d), custom_call_target="f" """
    (one,), (about,), memory = remedies_of(body, "split")
    assert (one.advice, one.name, about) == ("split", "16", ["a", "b"])
    given_ = 256 + 512
    assert memory.live_bytes().max() == given_ + 2 * 1280 + 256
    # Then both a and b are half as large: with c they are the peak.
    assert one.peak == given_ + 1280 + 256
    assert one.saves == 1280


@given(hlo_strategies.texts(donations=True))
def test_the_sum_of_all_savings_is_what_counting_again_gives(text):
    module = parse_module(text)
    memory = live_memory(module)
    live = memory.live_bytes()
    found = remedies(module, memory, origins(module, text))
    again = [one for one in found if one.advice == "recompute"]
    peak = int(live.max())
    assert all(one.saves > 0 for one in found)
    assert sum(one.saves for one in again) <= peak - min([one.peak for one in again], default=peak)
    assert all(one.peak >= peak - one.num_bytes for one in found if one.advice == "split")
    assert all(one.peak <= peak for one in found if one.advice == "donate")


@given(hlo_strategies.texts(donations=True))
def test_counting_again_frees_nothing_but_idle_arrays(text):
    module = parse_module(text)
    memory = live_memory(module)
    live = memory.live_bytes()
    for step in range(len(memory.steps)):
        found = list(recipes(module, memory, step))
        for some in itertools.islice(itertools.chain([found], ([one] for one in found)), 5):
            after = without(memory, live, some)
            idle = np.zeros_like(live)
            for one in some:
                size = memory.values[one.value].array.num_bytes
                assert one.idle < step < one.needed
                idle[one.idle + 1 : one.needed] += size
            assert np.all(after >= live - idle)


def layer(w, x):
    h = x @ w
    return jax.nn.gelu(h) * jnp.sin(h)


def gradients(fn):
    def loss(ws, x):
        for w in ws:
            x = fn(w, x)
        return (x**2).mean()

    return jax.jit(jax.grad(loss))


def test_a_checkpoint_saves_most_of_what_is_said():
    """``jax.checkpoint`` keeps the arguments of a layer as well, which are cheap to make, too."""
    ws = [jax.ShapeDtypeStruct((64, 64), jnp.float32)] * 6
    x = jax.ShapeDtypeStruct((1024, 64), jnp.float32)
    text = gradients(layer).lower(ws, x).compile().as_text()
    module = parse_module(text)
    memory = live_memory(module)
    again = [one for one in remedies(module, memory, origins(module, text)) if one.is_residual]
    assert {one.source.function for one in again} == {"layer"}
    saves = sum(one.saves for one in again)
    policy = jax.checkpoint_policies.dots_saveable
    text = gradients(jax.checkpoint(layer, policy=policy)).lower(ws, x).compile().as_text()
    saved = memory.live_bytes().max() - live_memory(parse_module(text)).live_bytes().max()
    assert 0.5 * saves < saved <= saves
