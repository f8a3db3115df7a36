"""The command line in-process: what it writes, and one line on stderr for bad input."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import regal_jax as rj
from regal_jax import api, cli, registry
from regal_jax.cli import flags, schedule
from regal_jax.options import Options
from regal_jax.reporting import tables
from tests.contracts import UNTIMED
from tests.environments.recompute.test_checker import AGAIN
from tests.policies.cases import random_graph

PBTXT = Path(__file__).parents[1] / "graphs/importers/tensorflow/data/regal_example.pbtxt"
FAST = ["--method=random_search", "--evaluations=20"]


@pytest.fixture
def graph_file(tmp_path):
    path = tmp_path / "graph.json"
    rj.save_graph(random_graph(0), path)
    return str(path)


def run(*arguments):
    return cli.main([str(argument) for argument in arguments])


def assert_one_line(capsys, status=2):
    """stdout empty, one line on stderr; returns it."""
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1, captured.err
    assert captured.err.startswith("regal-jax: error: ")
    assert "Traceback" not in captured.err
    return captured.err


def test_schedule_writes_what_it_is_asked_for(graph_file, tmp_path, capsys):
    output, trace, plot = (tmp_path / name for name in ("s.json", "t.json", "p.png"))
    assert run("schedule", graph_file, *FAST, f"--output={output}", f"--trace={trace}") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "random_search" in printed.out
    assert f"wrote {output}\nwrote {trace}\n" in printed.out
    schedule = rj.load_schedule(output)
    rj.evaluate(rj.load_graph(graph_file), schedule)
    assert schedule.evaluations == 20
    assert json.loads(trace.read_text())
    pytest.importorskip("matplotlib")
    for objective in ("makespan", "peak_memory"):
        arguments = (*FAST, f"--plot={plot}", f"--objective={objective}")
        assert run("schedule", graph_file, *arguments) == 0
        assert plot.read_bytes().startswith(b"\x89PNG")


def test_options_reach_the_search(graph_file, monkeypatch, capsys):
    asked = []

    def plan(graph, options):
        asked.append(options)
        return api_plan(graph, options)

    api_plan = api.plan
    monkeypatch.setattr(api, "plan", plan)
    options = {
        "objective": "makespan",
        "num_devices": 3,
        "method": "random_search",
        "evaluations": 7,
        "seed": 5,
        "memory_capacity": 100_000,
        "latency": 1.5,
        "per_byte": 0.25,
        "policy": None,
        "time_limit": None,
        "decoding": "sample",
        "generation": None,
        "temperature": None,
        "target": None,
        "candidates": None,
        "trials": None,
    }
    flags = [f"--{key}={value}" for key, value in options.items() if value is not None]
    assert run("schedule", graph_file, *flags) == 0
    assert asked == [Options(**options)]


def test_candidates_on_a_target(graph_file, tmp_path, capsys):
    output, model = tmp_path / "s.json", tmp_path / "slow.toml"
    model.write_text("[transfers]\nlatency_share = 5.0\n")
    flags = ["--objective=makespan", "--method=list_sampling", "--evaluations=80"]
    flags += [f"--target={model}", "--candidates=7", "--temperature=1.5", "--seed=3"]
    assert run("schedule", graph_file, *flags, f"--output={output}") == 0
    graph, schedule = rj.load_graph(graph_file), rj.load_schedule(output)
    options = {"candidates": 7, "temperature": 1.5, "seed": 3, "evaluations": 80}
    options |= {"objective": "makespan", "method": "list_sampling"}
    tried = []

    def target(candidate):
        tried.append(candidate)
        return rj.simulated(graph, rj.read_target(model))(candidate)

    expected = rj.optimize(graph, target=target, **options)
    assert schedule.replace(**UNTIMED) == expected.replace(**UNTIMED)
    table = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert table[0].split() == ["schedule", "makespan", "on", "slow"]
    lists = rj.optimize(graph, objective="makespan", method="critical_path")
    rows = [
        ("list_sampling, best of 7 on the target", expected),
        ("list_sampling, best by makespan", tried[0]),
        ("list scheduling (critical_path)", lists),
    ]
    for line, (label, shown) in zip(table[2:5], rows, strict=True):
        times = [tables.human_time_us(time) for time in (shown.makespan, target(shown))]
        assert line.startswith(label)
        assert line.removeprefix(label).split() == " ".join(times).split()
    assert table[5] == f"wrote {output}"


def test_without_a_method_prices_are_swept_for_a_target(graph_file, tmp_path, capsys):
    output, model = tmp_path / "s.json", tmp_path / "slow.toml"
    model.write_text("[transfers]\nlatency_share = 5.0\n")
    flags = ["--objective=makespan", f"--target={model}", f"--output={output}"]
    assert run("schedule", graph_file, *flags) == 0
    schedule = rj.load_schedule(output)
    assert (schedule.method, schedule.evaluations) == ("regal", 5000)
    assert schedule.target_time > 0
    few = [*flags[:-1], "--method=list_sampling", "--trials=12"]
    capsys.readouterr()
    assert run("schedule", graph_file, *few) == 0
    (tried,) = re.findall(r"list_sampling, best of (\d+) on the target", capsys.readouterr().out)
    assert 3 <= int(tried) <= 12  # there may be no more schedules


def test_the_comparison_by_hand(tmp_path, capsys):
    """One op of 1024 bytes of input and 512 of output: nothing to save."""
    graph = rj.ComputationGraph.create(
        num_ops=1, producer=[-1, 0], size=[1024, 512], consumers=[[0], []]
    )
    rj.save_graph(graph, tmp_path / "g.json")
    assert run("schedule", tmp_path / "g.json", *FAST) == 0
    header, _, simple, best = capsys.readouterr().out.splitlines()
    assert header.split() == [
        "schedule",
        "device",
        "0",
        "device",
        "1",
        "fullest",
        "device",
        "saved",
        "over",
        "lower",
        "bound",
        "evaluations",
        "seconds",
    ]
    for line, method in ((simple, "best simple order (program_order)"), (best, "random_search")):
        assert line.startswith(method)
        assert "1.50 KiB" in line
        assert "0.0 %" in line
    assert best.split()[-2] == "20"


def test_import_and_info(tmp_path, capsys):
    output = tmp_path / "graph.json"
    assert run("import", PBTXT, f"--output={output}") == 0
    graph = rj.load_graph(output)
    assert f"{graph.num_ops} ops, {graph.num_tensors} tensors" in capsys.readouterr().out
    assert graph == rj.import_graph(PBTXT)
    for source in (PBTXT, output):
        assert run("info", source, "--num_devices=3") == 0
        out = capsys.readouterr().out
        assert "makespan at least, 3 devices" in out
        assert f"ops {graph.num_ops}" in " ".join(out.split())


def test_schedule_of_other_sources(tmp_path, capsys):
    assert run("schedule", PBTXT, *FAST) == 0
    onnx = pytest.importorskip("onnx")
    data = Path(onnx.__file__).parent / "backend/test/data"
    model = min(data.rglob("light_*.onnx"), key=lambda path: path.stat().st_size)
    for command in (("info", model), ("schedule", model, "--method=lpmf")):
        assert run(*command) == 0
    assert "lpmf" in capsys.readouterr().out


def test_check_accepts_what_schedule_wrote(graph_file, tmp_path, capsys):
    output = tmp_path / "s.json"
    flags = ["--objective=makespan", "--latency=2"]
    assert run("schedule", graph_file, *FAST, *flags, f"--output={output}") == 0
    capsys.readouterr()
    assert run("check", graph_file, output, "--latency=2") == 0
    assert capsys.readouterr().out.startswith("valid: peak memory [")


def test_ops_that_run_again_are_written_drawn_and_checked(tmp_path, capsys):
    graph_file, output, page, trace = (tmp_path / f"{name}.json" for name in "gspt")
    rj.save_graph(AGAIN, graph_file)
    flags = ["--objective=makespan", "--num_devices=1", "--memory_capacity=28"]
    files = [f"--output={output}", f"--page={page}", f"--trace={trace}"]
    assert run("schedule", graph_file, *flags, "--method=recompute", *files) == 0
    assert rj.load_schedule(output).steps.tolist() == [0, 1, 2, 3, 0, 4]
    slices = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    assert len(slices) == 6
    capsys.readouterr()
    assert run("check", graph_file, output, "--memory_capacity=28") == 0
    assert "[26] bytes" in capsys.readouterr().out
    assert run("explain", graph_file, f"--schedule={output}") == 0
    assert "No schedule on one device needs less than 26 B" in capsys.readouterr().out
    flags[-1] = "--memory_capacity=20"
    assert run("schedule", graph_file, *flags, "--method=recompute") == 3
    assert "none needs less than 26, whatever runs again" in capsys.readouterr().err


def swap_steps(document):
    document["steps"].reverse()


def drop_step(document):
    document["steps"].pop()


def claim_less(document):
    document["peak_memory"][0] -= 1


def move_op(document):
    document["placement"][0] ^= 1


@pytest.mark.parametrize("tamper", [swap_steps, drop_step, claim_less, move_op])
def test_check_rejects_a_tampered_schedule(graph_file, tmp_path, capsys, tamper):
    output = tmp_path / "s.json"
    run("schedule", graph_file, *FAST, f"--output={output}")
    document = json.loads(output.read_text())
    tamper(document)
    output.write_text(json.dumps(document))
    capsys.readouterr()
    assert run("check", graph_file, output) == 2
    assert_one_line(capsys)


def test_check_holds_a_schedule_to_the_capacity(graph_file, tmp_path, capsys):
    output = tmp_path / "s.json"
    run("schedule", graph_file, *FAST, f"--output={output}")
    capsys.readouterr()
    assert run("check", graph_file, output, "--memory_capacity=1") == 2
    assert "its capacity is 1" in assert_one_line(capsys)


def bad_files(folder):
    good = json.dumps(rj.graphs.files.graph_to_json(random_graph(0)))
    cycle = {
        "format": "regal-graph/1",
        "ops": {"duration": [1, 1]},
        "tensors": {"producer": [0, 1], "size": [1, 1], "consumers": [[1], [0]]},
    }
    contents = {
        "malformed.json": good[:-5].encode(),
        "list.json": b"[]",
        "binary.json": bytes(range(256)),
        "empty.json": b"",
        "cycle.json": json.dumps(cycle).encode(),
        "format.json": good.replace("graph/1", "graph/9").encode(),
        "two.jsonl": f"{good}\n{good}\n".encode(),
        "truncated.jsonl.gz": gzip.compress(good.encode())[:-20],
        "plain.jsonl.gz": good.encode(),
        "garbage.onnx": bytes(range(256)) * 4,
        "text.onnx": b"hello",
        "garbage.pbtxt": b"node { name: 'a' id: }",
        "unknown.xyz": good.encode(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder.json").mkdir()
    return [*contents, "folder.json", "missing.json", "missing.onnx", "missing.pbtxt"]


@pytest.mark.parametrize("command", ["schedule", "info", "import", "check"])
def test_bad_graph_files_are_one_line(tmp_path, capsys, command):
    pytest.importorskip("onnx")
    extra = {"import": [f"--output={tmp_path / 'out.json'}"], "check": [tmp_path / "s.json"]}
    for name in bad_files(tmp_path):
        assert run(command, tmp_path / name, *extra.get(command, [])) == 2, name
        assert name in assert_one_line(capsys), name
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--num_devices=0"], "num_devices"),
        (["--method=brkga", "--evaluations=10"], "at least the population"),
        (["--evaluations=0"], "at least 1"),
        (["--method=magic"], "'magic' is unknown"),
        (["--method=l2d"], "not in this version"),
        (["--method=gflownet"], "gflownet is for the objective makespan"),
        (["--target=none.toml"], "none.toml: no such file"),
        (["--target=."], "is a directory"),
        (["--target="], "must not be empty"),
        (["--candidates=5"], "are what is tried on a target, but none is given"),
        (["--temperature=1"], "auto has no temperature"),
        (["--temperature=0", "--method=ppo"], "temperature must be a positive number"),
        (["--method=mopnr"], "schedules graphs with machine types (a capacity)"),
        (["--objective=energy"], "invalid choice"),
        ([f"--seed={10**40}"], "seed must be an integer in 0..2**63 - 1"),
        ([f"--evaluations={10**30}"], "evaluations must be at most 2**53"),
        ([f"--memory_capacity={10**400}"], "memory_capacity must be bytes"),
        (["--latency=1e400"], "latency must be a finite number"),
        ([f"--output={'a' * 300}.json"], "can't write there: file name too long"),
        (["--output="], "must not be empty"),
        (["--policy="], "must not be empty"),
        (["--plot=a\0.png"], "must not be empty, or hold a null character"),
        (["--seed=-1"], "seed"),
        (["--seed=x"], "invalid int"),
        (["--nonsense"], "unrecognized"),
        (["--memory_capacity=-5"], "memory_capacity"),
        (["--latency=nan"], "latency"),
        (["--plot=p.xyz"], "must end in"),
        (["--method=regal_paper", "--policy=none.policy"], "none.policy: no such file"),
    ],
)
def test_bad_options_are_one_line(graph_file, tmp_path, capsys, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    assert run("schedule", graph_file, *flags) == 2
    assert message in assert_one_line(capsys)


def test_no_command_is_one_line(capsys):
    assert run() == 2
    assert "COMMAND" in assert_one_line(capsys)


@pytest.mark.parametrize("flag", ["--output", "--trace", "--plot"])
def test_unwritable_outputs_are_found_before_the_search(
    graph_file, tmp_path, capsys, monkeypatch, flag
):
    monkeypatch.setattr(api, "optimize", lambda *_, **__: pytest.fail("searched"))
    (tmp_path / "folder.png").mkdir()
    for place in ("missing/x.png", "folder.png", "graph.json/x.png"):
        assert run("schedule", graph_file, f"{flag}={tmp_path / place}") == 2
        assert "can't write there" in assert_one_line(capsys)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["folder.png", "graph.json"]


def test_a_failed_search_writes_nothing(graph_file, tmp_path, capsys):
    output = tmp_path / "s.json"
    output.write_text("old")
    assert run("schedule", graph_file, "--method=magic", f"--output={output}") == 2
    assert output.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2


def test_an_infeasible_schedule_is_written_and_exits_with_3(tmp_path, capsys):
    graph = rj.ComputationGraph.create(num_ops=2, producer=[0, 1], size=[16, 8], consumers=[[], []])
    source, output = tmp_path / "g.json", tmp_path / "s.json"
    rj.save_graph(graph, source)
    flags = ["--memory_capacity=12", f"--output={output}"]
    assert run("schedule", source, *FAST, *flags) == 3
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "needs 16 bytes, 4 too many" in captured.err
    assert f"wrote {output}" in captured.out
    assert max(rj.load_schedule(output).peak_memory) == 16
    assert run("schedule", source, *FAST, "--memory_capacity=24") == 0


def test_help(capsys):
    for arguments in (["--help"], ["schedule", "--help"], ["check", "--help"]):
        with pytest.raises(SystemExit) as stop:
            run(*arguments)
        assert stop.value.code == 0
        captured = capsys.readouterr()
        assert captured.out.startswith("usage: regal-jax")
        assert captured.err == ""


def test_an_interrupt_is_one_line(graph_file, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "run", interrupted)
    assert run("schedule", graph_file) == 130
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1


def test_the_installed_command_is_this_one():
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="regal-jax")
    assert script.load() is cli.main


def test_a_picture_without_matplotlib_names_the_remedy(graph_file, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run("schedule", graph_file, *FAST, f"--plot={tmp_path / 'p.png'}") == 2
    assert "regal_jax[plot]" in assert_one_line(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["graph.json"]


def test_pages_of_a_graph_and_of_a_schedule(graph_file, tmp_path, capsys):
    for command in (["info", graph_file], ["schedule", graph_file, *FAST]):
        page = tmp_path / f"{command[0]}.html"
        assert run(*command, f"--page={page}") == 0
        assert capsys.readouterr().out.endswith(f"wrote {page}\n")
        assert page.read_text().startswith("<!DOCTYPE html>")
    assert run("info", graph_file, f"--page={tmp_path / 'missing/p.html'}") == 2
    assert "can't write there" in assert_one_line(capsys)


def test_the_version_and_the_module(capsys):
    with pytest.raises(SystemExit) as stop:
        run("--version")
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"regal-jax {rj.__version__}\n"
    command = [sys.executable, "-m", "regal_jax", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith(
        "regal-jax "
    )


def test_methods_are_listed(capsys):
    assert run("methods", "--json") == 0
    rows = {row["method"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == set(registry.names("method"))
    assert rows["auto"]["for"] == "devices, machine types"
    assert (rows["gflownet"]["learned"], rows["heft"]["learned"]) == ("learned", "")
    assert rows["metropolis"]["what it does"] != rows["list_sampling"]["what it does"]
    assert run("methods") == 0
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 2 + len(rows)
    assert table[0].split()[:3] == ["method", "for", "learned"]


def test_json_is_in_bytes_and_us(graph_file, tmp_path, capsys):
    output = tmp_path / "s.json"
    assert run("schedule", graph_file, *FAST, "--json", f"--output={output}") == 0
    told, schedule = json.loads(capsys.readouterr().out), rj.load_schedule(output)
    assert told["schedule"]["peak_memory"] == list(schedule.peak_memory)
    assert told["schedule"]["lower_bound"] == schedule.lower_bound
    assert told["best simple order"]["makespan"] > 0
    assert told["wrote"] == [str(output)]
    assert run("check", graph_file, output, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "valid": True,
        "peak_memory": list(schedule.peak_memory),
        "makespan": schedule.makespan,
    }
    assert run("info", graph_file, "--json") == 0
    facts, graph = json.loads(capsys.readouterr().out), rj.load_graph(graph_file)
    assert facts["ops"] == graph.num_ops
    assert facts["bytes in all tensors"] == int(graph.size.sum())
    assert facts["work"] == pytest.approx(graph.duration.sum())


@pytest.mark.parametrize(
    ("text", "number"),
    [("2GiB", 2**31), ("1.5MiB", 3 * 2**19), ("500MB", 500_000_000), ("4096", 4096), ("7 B", 7)],
)
def test_sizes_have_units(text, number):
    assert flags.byte_count(text) == number


@pytest.mark.parametrize("text", ["2GBi", "1.5", "0.5B", "GiB", "", "2e9", "nan"])
def test_sizes_that_are_none(graph_file, capsys, text):
    assert run("info", graph_file, f"--memory_capacity={text}") == 2
    assert "--memory_capacity" in assert_one_line(capsys)


def test_a_name_that_is_nearly_right(graph_file, capsys):
    assert run("schedule", graph_file, "--method=price_swep", "--objective=makespan") == 2
    assert "did you mean price_sweep?" in assert_one_line(capsys)


def test_quiet_prints_errors_and_json_alone(graph_file, tmp_path, capsys):
    output = tmp_path / "s.json"
    for command in (
        ("schedule", graph_file, *FAST, f"--output={output}"),
        ("check", graph_file, output),
        ("info", graph_file),
        ("import", graph_file, f"--output={tmp_path / 'g.json'}"),
        ("methods",),
    ):
        assert run(*command, "--quiet") == 0
        assert capsys.readouterr() == ("", "")
    assert run("info", graph_file, "-q", "--json") == 0
    assert json.loads(capsys.readouterr().out)["ops"] > 0
    assert run("info", tmp_path / "none.json", "-q") == 2
    assert_one_line(capsys)


def test_verbose_tells_each_step_and_where_errors_come_from(graph_file, capsys):
    assert run("schedule", graph_file, *FAST, "--verbose") == 0
    lines = capsys.readouterr().err.splitlines()
    assert "ops" in lines[0]
    assert lines[1] == "regal-jax: random_search, 20 evaluations at most"
    assert lines[2].startswith("regal-jax: best ")
    assert run("schedule", graph_file, "--num_devices=0", "-v") == 2
    assert "Traceback" in capsys.readouterr().err


def test_help_has_groups_defaults_and_examples(capsys):
    groups = {name for names in schedule.GROUPS.values() for name in names}
    assert groups == set(Options.__dataclass_fields__)
    for command in cli.COMMANDS:
        with pytest.raises(SystemExit):
            run(command, "--help")
        assert "\nexamples:\n  " in capsys.readouterr().out, command
    with pytest.raises(SystemExit):
        run("schedule", "--help")
    text = " ".join(capsys.readouterr().out.split())
    assert "how it is searched for: --method NAME" in text
    assert "(default: auto)" in text
    assert "us per transfer (default: 0.0)" in text


@pytest.mark.parametrize("no_color", ["", "1"])
def test_tables_are_drawn_on_terminals_alone(capsys, monkeypatch, no_color):
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert run("methods") == 0
    drawn = capsys.readouterr().out
    assert "━" in drawn
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", drawn)
