"""The page of an explanation: complete, self-contained, safe, small; and in a browser, if any."""

import itertools
import json
import re
import shutil
import subprocess

import jax
import jax.numpy as jnp
import pytest

from regal_jax.compiler.explain import page as explain_page
from regal_jax.compiler.explain.explain import explain
from regal_jax.compiler.xla.candidates import Search
from regal_jax.errors import RegalError
from regal_jax.reporting.tables import human_bytes
from tests.reporting.html_pages import Page, check_labels, check_self_contained, read_page

HOSTILE = "</script><b>&\\'<!--"
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


def layer(w, x):
    return jnp.tanh(x @ w) * jnp.sin(x)


def loss(ws, x):
    for w in ws:
        x = layer(w, x)
    return (x**2).mean()


def step(ws, x):
    return jax.tree.map(lambda w, g: w - 0.1 * g, ws, jax.grad(loss)(ws, x))


@pytest.fixture(scope="module")
def training():
    ws = [jax.ShapeDtypeStruct((64, 64), jnp.float32)] * 4
    x = jax.ShapeDtypeStruct((256, 64), jnp.float32)
    return explain(step, ws, x, search=Search(methods=("depth_first", "breadth_first")))


def looped(x):
    return jax.lax.scan(lambda c, _: (jnp.sin(c) @ c, c.sum()), x, length=5)


@pytest.fixture(scope="module")
def scan():
    return explain(jax.jit(looped, donate_argnums=0), jax.ShapeDtypeStruct((32, 32), jnp.float32))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "page.html"


def write(explanation, path):
    explain_page.write_page(explanation, path)
    return read_page(path)


def summed(numbers):
    return list(itertools.accumulate(numbers))


def split(values, counts):
    ends = summed(counts)
    return [tuple(values[end - count : end]) for end, count in zip(ends, counts, strict=True)]


def labels(column):
    return [column["values"][i] for i in column["index"]]


@pytest.mark.parametrize("which", ["training", "scan"])
def test_the_data_are_the_explanation(which, request, path):
    one = request.getfixturevalue(which)
    data = json.loads(write(one, path).data)
    assert data == explain_page.page_data(one)
    memory, columns, steps = one.memory, data["buffers"], data["steps"]
    first = summed(columns["first"])
    last = [start + length - 1 for start, length in zip(first, columns["length"], strict=True)]
    assert columns["bytes"] == [m.num_bytes for m in memory.memories]
    assert labels(columns["kind"]) == [m.kind for m in memory.memories]
    assert list(zip(first, last, strict=True)) == [(m.first, m.last) for m in memory.memories]
    assert split(summed(columns["read"]), columns["reads"]) == [m.reads for m in memory.memories]
    writes = [tuple(memory.values[v].step for v in m.values) for m in memory.memories]
    assert split(summed(columns["write"]), columns["writes"]) == writes
    shapes = [tuple(map(one.shape_of, m.values)) for m in memory.memories]
    assert split(labels(columns["shape"]), columns["writes"]) == shapes
    assert steps["instruction"] == [s.instruction for s in one.steps]
    assert labels(steps["opcode"]) == [s.opcode for s in one.steps]
    heads, tails = labels(steps["opName"]["head"]), labels(steps["opName"]["tail"])
    assert [a + b for a, b in zip(heads, tails, strict=True)] == [s.op_name for s in one.steps]
    assert labels(steps["file"]) == [str(s.source or "") for s in one.steps]
    assert (data["peakStep"], data["bound"]) == (one.peak_step, one.bound.num_bytes)


@pytest.mark.parametrize("which", ["training", "scan"])
def test_blocks_lie_where_a_heap_has_room(which, request):
    """Memory that is in use at once is apart, but for outputs in the memory of parameters."""
    one = request.getfixturevalue(which)
    memories, columns = one.memory.memories, explain_page.page_data(one)["buffers"]
    placed = list(zip(memories, columns["offset"], strict=True))
    for (a, start), (b, other) in itertools.combinations(placed, 2):
        together = a.first <= b.last and b.first <= a.last and a.num_bytes and b.num_bytes
        if together and a.donor is None and b.donor is None:
            assert start + a.num_bytes <= other or other + b.num_bytes <= start
    for memory, start in placed:
        assert memory.donor is None or start == columns["offset"][memory.donor]
    top = max(start + memory.num_bytes for memory, start in placed)
    assert one.peak <= top <= 1.5 * one.peak


def test_the_page_is_self_contained(training, path):
    write(training, path)
    check_self_contained(path)
    assert "url(" not in re.sub(r"url\(#\w+\)", "", path.read_text(encoding="utf-8"))


def test_what_needs_no_script_is_in_the_page(training, path):
    text = " ".join(write(training, path).text.split())
    assert "Memory of jit_step" in text
    assert f"{human_bytes(training.peak)} are in use at step {training.peak_step}" in text
    assert (
        f"No order of the instructions needs less than {human_bytes(training.bound.num_bytes)}"
        in text
    )
    assert "Orders compared" in text
    assert "depth_first" in text
    assert text.count("Show buffers") == len(training.remedies) >= 2
    assert "Recompute" in text
    assert "Donate" in text


def test_without_a_search_no_orders_are_shown(scan, path):
    assert "Orders compared" not in write(scan, path).text


def test_every_field_has_a_label(training, path):
    write(training, path)
    check_labels(path)


def test_hostile_names_stay_text(path):
    text = f"""HloModule m</script><b>{{{{ data }}}}, is_scheduled=true
ENTRY e {{
  x = f32[8] parameter(0), metadata={{op_name="{HOSTILE}"}}
  y = f32[4] sine(x), metadata={{op_name="{{{{ data }}}}" source_file="{HOSTILE}" source_line=3}}
}}"""
    one = explain(text)
    page = write(one, path)
    assert "Memory of m</script><b>{{ data }}" in page.text
    assert sum(tag == "b" for tag, _ in page.tags) == len(one.remedies)
    assert sum(tag == "script" for tag, _ in page.tags) == 2
    assert "<" not in page.data
    data = json.loads(page.data)["steps"]
    assert "</script><b>&'<!--:3" in labels(data["file"])
    assert "{{ data }}" in data["opName"]["tail"]["values"]


def test_the_bytes_are_reproducible(training, path):
    write(training, path)
    first = path.read_bytes()
    write(training, path)
    assert path.read_bytes() == first


def test_a_place_that_can_not_be_written(scan, tmp_path):
    with pytest.raises(RegalError, match="can't write there"):
        explain_page.write_page(scan, tmp_path / "missing" / "page.html")


def test_ten_thousand_steps_are_a_small_page(path):
    lines = ["  v0 = f32[64,64] parameter(0)"]
    for i in range(1, 10_000):
        name = f"jit(step)/transpose(jvp(Model))/Layer_{i // 40}/Block_{i // 10}/dot_general_{i}"
        where = f'source_file="/home/me/project/model_{i % 9}.py" source_line={i % 500}'
        lines.append(
            f"  v{i} = f32[64,64] custom-call(v{i - 1}, v{i // 2}), "
            f'metadata={{op_name="{name}" {where}}}'
        )
    lines[-1] = f"  ROOT{lines[-1]}"
    body = "\n".join(lines)
    one = explain(f"HloModule large, is_scheduled=true\nENTRY e {{\n{body}\n}}")
    write(one, path)
    assert len(one.steps) == 10_000
    assert path.stat().st_size < 3_000_000


SCRIPT = """<script>
const byId = id => document.getElementById(id);
const click = selector => document.querySelector(selector).click();
const cells = row => [...row.children].map(cell => cell.textContent);
const names = () => [...document.querySelectorAll("#buffers tr[data-buffer]")].map(row =>
  [...cells(row).slice(0, 3), row.children[3].firstChild.data, ...cells(row).slice(5)]);
const found = {};
const record = key => { found[key] = { names: names(), title: byId("live-title").textContent,
  where: byId("where").textContent, count: byId("count").textContent, hash: location.hash }; };
const type = words => {
  byId("text").value = words;
  byId("text").dispatchEvent(new Event("input", { bubbles: true }));
};
record("peak");
click("#buffers tr[data-buffer] .step"); record("made");
click("#to-peak"); click('[data-sort="name"]'); record("sorted");
byId("chart").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" })); record("right");
click('[data-remedy="0"]'); record("remedy");
click("#only"); type("no such words"); record("none");
type("ws[1]"); record("filtered");
const { left } = byId("chart").getBoundingClientRect();
byId("chart").dispatchEvent(new MouseEvent("click", { clientX: left + 70, bubbles: true }));
record("clicked");
click("#as-buffers");
found.blocks = document.querySelectorAll("#chart .block").length;
const block = document.querySelector("#chart .block").getBoundingClientRect();
byId("chart").dispatchEvent(new PointerEvent("pointermove", {
  clientX: block.left + block.width / 2, clientY: block.top + block.height / 2, bubbles: true }));
found.tip = byId("tip").textContent;
click("#as-buffers");
found.paths = document.querySelectorAll("#chart path").length;
found.value = byId("chart").getAttribute("aria-valuetext");
const out = document.createElement("script");
out.type = "application/json"; out.id = "found"; out.textContent = JSON.stringify(found);
document.body.append(out);
</script>"""


def browse(path, fragment=""):
    """The document as a browser has it after the scripts ran."""
    if BROWSER is None:
        pytest.skip("no chromium or google-chrome on this machine")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,1400"]
    command += [f"--user-data-dir={path.parent / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*command, f"{path.as_uri()}{fragment}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "</html>" in done.stdout, done.stderr
    return done.stdout


def listed(explanation, step):
    """What the table shows of the buffers in use at a step, the largest first."""
    shown = []
    for live in explanation.live(step):
        returned = "returned" if live.kind == "output" else ""
        last = returned if live.last_reader is None else str(live.last_reader)
        idle = "" if live.idle is None else str(live.idle)
        first = (human_bytes(live.num_bytes), live.shape, live.kind, live.name)
        shown.append([*first, str(live.made), last, idle])
    return shown


def test_a_browser_lists_what_is_live(training, path):
    explain_page.write_page(training, path)
    path.write_text(path.read_text().replace("</body>", f"{SCRIPT}</body>"))
    (text,) = re.findall(r'id="found">(.*?)</script>', browse(path), re.DOTALL)
    found = json.loads(text)
    peak, one = training.peak_step, training
    assert sorted(found["peak"]["names"]) == sorted(listed(one, peak))
    sizes = [row[0] for row in found["peak"]["names"]]
    assert sizes == [row[0] for row in listed(one, peak)]
    assert found["peak"]["title"] == f"In memory at the peak, step {peak}"
    assert one.steps[peak].instruction in found["peak"]["where"]
    assert human_bytes(one.peak) in found["peak"]["where"]
    assert f"{len(one.at_peak)} of {len(one.at_peak)} buffers" in found["peak"]["count"]

    made = int(found["peak"]["names"][0][4])
    assert sorted(found["made"]["names"]) == sorted(listed(one, made))
    assert found["made"]["hash"] == f"#step={made}"
    names = [row[3] for row in found["sorted"]["names"]]
    assert names == sorted(names)
    assert len(names) == len(one.at_peak)
    assert sorted(found["right"]["names"]) == sorted(listed(one, peak + 1))

    about = sorted(human_bytes(one.memory.memories[n].num_bytes) for n in one.remedies[0].memories)
    assert sorted(row[0] for row in found["remedy"]["names"]) == about
    assert found["none"]["names"] == []
    assert [row[3] for row in found["filtered"]["names"]] == ["ws[1]"]
    assert found["clicked"]["hash"].startswith("#step=")
    assert int(found["clicked"]["hash"].removeprefix("#step=")) < 3
    assert found["paths"] >= 4
    assert found["blocks"] == sum(
        m.first <= m.last and m.num_bytes > 0 for m in one.memory.memories
    )
    assert re.search(r"made at step \d+", found["tip"])
    assert found["value"].startswith("step ")


def test_a_fragment_selects_a_step(scan, path):
    explain_page.write_page(scan, path)
    page = Page(browse(path, "#step=5"))
    text = " ".join(page.text.split())
    assert "In memory at step 5" in text
    assert sum("data-buffer" in attributes for _, attributes in page.tags) == len(scan.live(5))
    for row in listed(scan, 5):
        assert f"{row[0]} {row[1]} {row[2]} {row[3]}" in text
