"""Other distributions: a wheel whose entry points are found, and the page that says how."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import regal_jax as rj

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how_to_add_a_method.md"
EXTENSION = '''"""A method, a policy and a data set."""

import dataclasses

import regal_jax as rj
from regal_jax.policies.regal.policy import RegalConfig, regal_policy
from regal_jax.options import Result


@rj.register.method("first_order", evaluations=1)
def first_order(problem, budget):
    """The order of the program, on one device."""
    from regal_jax.search.orders import rules

    graph = problem.graph
    schedule = problem.costed(
        rules.build_schedule(
            graph,
            rules.ORDERS["program_order"](graph, 0),
            rules.single_device(graph),
            objective=problem.objective,
            num_devices=problem.num_devices,
        )
    )
    return Result(schedule, 1, ((1, float(schedule.cost)),))


@dataclasses.dataclass(frozen=True)
class ShyConfig(RegalConfig):
    """A policy that never chooses what it is sure of."""

    shyness: float = 1.0


@rj.register.policy("shy", ShyConfig)
def shy_policy(config):
    """REGAL's policy, whose mode is its least favourite."""
    import jax

    policy = regal_policy(config)
    turned = lambda params: jax.tree.map(lambda leaf: -config.shyness * leaf, params)
    return policy._replace(mode=lambda params, inputs: policy.mode(turned(params), inputs))


@rj.register.dataset("ladders")
def ladders(split):
    """Chains of a few ops."""
    first = {"train": 2, "valid": 20, "test": 30}[split]
    for length in range(first, first + 3):
        yield rj.ComputationGraph.create(
            num_ops=length,
            producer=range(length),
            size=[8] * length,
            consumers=[[op + 1] if op + 1 < length else [] for op in range(length)],
            name=f"ladder/{length}",
            family="ladder",
        )
'''


def wheel(folder: Path, name: str, modules: dict[str, str], entry_points: str) -> Path:
    """A wheel with these modules, as any build backend would write it."""
    info = f"{name}-1.0.dist-info"
    files = {
        **{f"{module}.py": text for module, text in modules.items()},
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points,
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(file, text)
    return path


def install(path: Path, folder: Path) -> dict[str, str]:
    """An environment in which a wheel is installed."""
    options = ["--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(path)], check=True)
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}


def run(*command: str, environment, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """The environment in which the extension is installed."""
    folder = tmp_path_factory.mktemp("extension")
    groups = ("methods", "policies", "datasets")
    points = "\n".join(f"[regal_jax.{group}]\nextension = regal_extension" for group in groups)
    path = wheel(folder, "regal_extension", {"regal_extension": EXTENSION}, points)
    return install(path, folder / "site")


def test_its_method_and_data_set_are_in_the_comparison_table(extended, tmp_path):
    table = run(
        str(ROOT / "experiments" / "regal_memory.py"),
        "--dataset=ladders",
        "--methods=brkga,first_order",
        "--test_evaluations=200",
        "--seeds=1",
        "--microbatches=1",
        f"--output_dir={tmp_path}",
        environment=extended,
        cwd=tmp_path,
    )
    assert "first_order" in table
    rows = (tmp_path / "results.csv").read_text()
    assert len(set(re.findall(r"ladder/\d+", rows))) == 3


def test_its_policy_steers_regal(extended, tmp_path):
    script = """
import dataclasses, jax
import regal_jax as rj
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.training.checkpoints import load_policy, save_policy
from regal_extension import ShyConfig, ladders
params, config, about = load_policy(shipped_policy("peak_memory"), RegalConfig)
shy = ShyConfig(**dataclasses.asdict(config), shyness=1.0)
save_policy("shy.policy", params, shy, about=about)
save_policy("negative.policy", jax.tree.map(lambda leaf: -leaf, params), config, about=about)
graph = rj.microbatches(next(iter(rj.datasets.model_zoo("valid"))), 2)
found = {name: rj.optimize(graph, method="regal_paper", policy=name + ".policy", evaluations=700)
         for name in ("shy", "negative")}
assert type(load_policy("shy.policy", RegalConfig)[1]) is ShyConfig
assert found["shy"].steps.tolist() == found["negative"].steps.tolist()
print("steered")
"""
    assert "steered" in run("-c", script, environment=extended, cwd=tmp_path)


def test_an_entry_point_that_fails_is_left_out_with_a_warning(tmp_path):
    points = "[regal_jax.methods]\nbroken = broken_extension"
    path = wheel(tmp_path, "broken", {"broken_extension": "import no_such_module"}, points)
    environment = install(path, tmp_path / "site")
    script = """
import warnings
import regal_jax as rj
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert "auto" in rj.register.names("method")
print([str(one.message) for one in caught])
"""
    output = run("-c", script, environment=environment, cwd=tmp_path)
    assert "entry point 'broken' of regal_jax.methods (broken_extension) was left out" in output
    assert "ModuleNotFoundError: No module named 'no_such_module'" in output


def test_the_page_on_methods_word_by_word(tmp_path):
    """The function as it is; then registered, installed, and asked for on the command line."""
    blocks = re.findall(r"```(python|toml)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (_, module), (_, decorator), (_, project) = blocks
    example = (
        ROOT / "tests" / "graphs" / "importers" / "tensorflow" / "data" / "regal_example.pbtxt"
    )

    rj.save_graph(rj.import_graph(example), tmp_path / "model.json")
    (tmp_path / "mine.py").write_text(module)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    assert float(run("mine.py", environment=environment, cwd=tmp_path)) > 0
    line = decorator.splitlines()[-1]
    registered = module.replace("def best_of_random", f"{line}\ndef best_of_random")
    group, point = re.search(r'entry-points\."(.*?)"\]\n(mine = .*)', project).groups()
    points = f"[{group}]\n{point}".replace('"', "")
    path = wheel(tmp_path, "mine", {"mine": registered}, points)
    (tmp_path / "mine.py").unlink()
    environment = install(path, tmp_path / "site")
    command = ("-m", "regal_jax", "schedule", "model.json", "--method=mine")
    assert "mine" in run(*command, environment=environment, cwd=tmp_path)
