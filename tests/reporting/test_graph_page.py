"""The interactive page of a graph: self-contained, complete; what a browser makes of it, if any."""

import itertools
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from regal_jax.environments.placement import checker
from regal_jax.environments.rcpsp.problem import MachineProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting.graph_page import page_data, write_graph_page
from regal_jax.reporting.tables import human_bytes
from tests.environments.rcpsp.cases import random_graph
from tests.reporting.cases import hand_graph, hand_schedule, random_schedule
from tests.reporting.html_pages import check_labels, check_self_contained, read_page

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
HOSTILE = "</script><b>&\\'<!--"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "page.html"


@pytest.mark.parametrize("schedule", [None, hand_schedule()])
def test_the_page_is_self_contained(path, schedule):
    write_graph_page(hand_graph(), path, schedule)
    check_self_contained(path)
    check_labels(path)
    text = read_page(path).text
    assert "4 ops, 4 tensors" in text
    assert ("peak memory 153 B" in text) == (schedule is not None)


def test_the_data_are_the_graph_and_the_schedule(path):
    graph, schedule = hand_graph(), hand_schedule()
    write_graph_page(graph, path, schedule)
    data = json.loads(read_page(path).data)
    assert data == page_data(graph, schedule)
    assert data["ops"]["name"] == ["a", "b", "c", "d"]
    assert list(itertools.accumulate(data["tensors"]["producer"])) == graph.producer.tolist()
    assert list(itertools.accumulate(data["tensors"]["consumer"])) == [0, 1, 2, 3, 3]
    assert data["tensors"]["size"] == [100, 40, 8, 8]
    assert data["schedule"]["op"] == [0, 0, 1, 2, 2, 3]
    assert data["schedule"]["tensor"] == [-1, 1, -1, -1, 3, -1]
    y = data["ops"]["y"]
    assert y[0] < y[1] == y[2] < y[3]
    assert abs(data["ops"]["x"][1] - data["ops"]["x"][2]) >= 1


def test_ops_of_a_layer_do_not_overlap():
    children = 40
    graph = ComputationGraph.create(
        num_ops=children + 1,
        producer=np.arange(children + 1),
        size=[1] * (children + 1),
        consumers=[list(range(1, children + 1)), *[[]] * children],
    )
    data = page_data(graph, None)
    x = sorted(x for x, y in zip(data["ops"]["x"], data["ops"]["y"], strict=True) if y)
    assert len(x) == children
    assert np.diff(x).min() > 0.98


def test_names_from_outside_stay_text(path):
    graph = hand_graph().replace(name=HOSTILE, op_names=(HOSTILE, "b", "c", "d"))
    write_graph_page(graph, path)
    page = read_page(path)
    assert json.loads(page.data)["ops"]["name"][0] == HOSTILE
    assert HOSTILE in page.text


def test_machine_types_and_what_there_is_nothing_of(path):
    graph = random_graph(0, 12)
    problem = MachineProblem(graph)
    schedule = problem.decode(np.zeros(problem.num_genes, np.float32))
    write_graph_page(graph, path, schedule)
    data = json.loads(read_page(path).data)["schedule"]
    assert data["machines"]
    assert data["lives"]["tensor"] == []
    empty = ComputationGraph.create(num_ops=0, producer=[], size=[], consumers=[])
    with pytest.raises(OptionError, match="at least one op"):
        write_graph_page(empty, path)


BEFORE = """<script>
window.errors = [];
addEventListener("error", event => errors.push(event.message));
window.requestAnimationFrame = draw => draw();  // at once, so that nothing is waited for
</script>"""
AFTER = r"""<script>
const found = { errors }, byId = id => document.getElementById(id);
function told(name) {
  found[name] = ["now", "about", "live", "matches"].map(id => byId(id)?.innerText ?? "");
}
function set(id, value, type) {
  if (!byId(id)) return;
  byId(id).value = value;
  byId(id).dispatchEvent(new Event(type, { bubbles: true }));
}
told("peak");
set("row", 0, "input"); told("start");
set("search", "add", "input"); told("search");
byId("next").click(); told("next");
for (const { value } of byId("color").options) {
  set("color", value, "change");
  found[value] = byId("legend").children.length;
}
for (const key of ["+", "-", "0", "ArrowRight", "p", "Escape"])
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
told("keys");
const out = document.createElement("script");
out.type = "application/json"; out.id = "found";
out.textContent = JSON.stringify(found).replaceAll("<", "\\u003c");
document.body.append(out);
</script>"""


@pytest.fixture
def browse(path):
    """What a browser's script finds on the page of a graph and a schedule."""
    if BROWSER is None:
        pytest.skip("no chromium or google-chrome on this machine")

    def found(graph, schedule):
        write_graph_page(graph, path, schedule)
        text = path.read_text().replace("<head>", f"<head>{BEFORE}")
        path.write_text(text.replace("</body>", f"{AFTER}</body>"))
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        command += [f"--user-data-dir={path.parent / 'profile'}"]
        done = subprocess.run(
            [*command, path.as_uri()], capture_output=True, text=True, timeout=120, check=False
        )
        (text,) = re.findall(r'id="found">(.*?)</script>', done.stdout, re.DOTALL)
        return json.loads(text)

    return found


def test_a_browser_steps_through_a_schedule(browse):
    graph = hand_graph()
    found = browse(graph, hand_schedule())
    assert found["errors"] == []
    assert "step 3 of 6, the peak: b" in found["peak"][0]
    assert "device 0 153 B" in found["peak"][0]
    assert "In memory at the step: 4 tensors" in found["peak"][2]
    assert "before the first step" in found["start"][0]
    assert "2 of 4 ops" in found["search"][3]
    assert found["next"][1].startswith("b")
    assert "Reads (1)" in found["next"][1]
    assert "Makes (1)" in found["next"][1]
    assert min(found[mode] for mode in ("kind", "memory", "time", "live", "order", "device")) > 0
    assert found["keys"][1] == ""
    assert "the peak" in found["keys"][0]


def test_a_browser_counts_as_the_checker_does(browse):
    graph = hand_graph()
    schedule = random_schedule(graph, 7, 1)
    usage = checker.memory_timeline(graph, schedule).usage
    assert f"{human_bytes(usage.max())} in use" in browse(graph, schedule)["peak"][0]


def test_a_browser_shows_a_graph_without_a_schedule(browse):
    found = browse(hand_graph().replace(op_names=(HOSTILE, "b", "c", "d")), None)
    assert found["errors"] == []
    assert HOSTILE in found["next"][1]
    assert (found["peak"][0], found["peak"][2]) == ("", "")
    assert "live" not in found
