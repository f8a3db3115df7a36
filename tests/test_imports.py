"""What importing the package imports: names on first use, nothing heavy before it is used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import regal_jax as rj
from regal_jax import registry

ROOT = Path(__file__).parents[1]
HEAVY = frozenset(
    ("chex", "flax", "jinja2", "jraph", "networkx", "numba", "optax", "orbax", "rich", "scipy")
)
OF_SEARCHES = frozenset(("chex", "numba", "scipy"))
"""Kernels are numba's, which looks for scipy."""
A_FUNCTION = "lambda x: (x @ x.T).sum() + (x.T @ x).sum()"


def imported(code: str) -> set[str]:
    """The packages of sys.modules after some code has run in a process of its own."""
    code += "\nimport sys\nprint(*sys.modules)"
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_the_package_alone_imports_not_even_jax():
    assert not imported("import regal_jax") & (HEAVY | {"jax", "numpy"})


def test_help_and_the_version_do_without_jax():
    code = "from regal_jax import cli\ntry:\n    cli.main(['{}'])\nexcept SystemExit:\n    pass"
    for flag in ("--help", "--version"):
        assert not imported(code.format(flag)) & (HEAVY | {"jax", "numpy"}), flag
    assert not imported(code.format("schedule', '--help")) & (HEAVY | {"jax"})


def test_graphs_are_read_without_jax():
    assert not imported("import regal_jax as rj\nrj.load_graph, rj.Options()") & (HEAVY | {"jax"})


def test_jit_imports_jax_until_it_compiles():
    assert not imported(f"import regal_jax as rj\nrj.jit({A_FUNCTION})") & HEAVY


@pytest.mark.filterwarnings("ignore")
def test_jit_searches_without_networks():
    compiled = (
        "import jax.numpy as jnp\nimport regal_jax as rj\n"
        f"rj.jit({A_FUNCTION}, methods=('xla_list', 'auto'), evaluations=10, cache=None)"
        "(jnp.ones((4, 8)))"
    )
    assert not imported(compiled) & (HEAVY - OF_SEARCHES)


@pytest.mark.parametrize("package", [rj, rj.datasets], ids=lambda package: package.__name__)
def test_type_checkers_see_the_names_that_there_are(package):
    tree = ast.parse(Path(package.__file__).read_text())
    (split,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {one.asname or one.name for node in split.body for one in node.names}
    assert seen | {"lazy"} >= set(package.__all__) >= seen
    assert set(dir(package)) >= seen
    for node in split.body:
        for one in node.names:
            home = __import__(node.module, fromlist=[one.name])
            assert getattr(package, one.asname or one.name) is getattr(home, one.name)


def test_a_name_that_there_is_not():
    with pytest.raises(AttributeError, match="module 'regal_jax' has no attribute 'optimise'"):
        rj.optimise  # noqa: B018


@pytest.mark.parametrize("kind", list(registry.GROUPS))
def test_the_registry_lists_what_the_modules_register(kind):
    own = {}
    for key, entry in registry.entries(kind).items():
        function = entry.run if kind == "method" else entry.make
        module = registry._origin(function).rpartition(".")[0]
        if module.startswith("regal_jax."):
            own[key] = module
    assert own == registry.OWN[kind]


def test_a_name_is_taken_before_it_is_imported():
    code = """
import regal_jax as rj
try:
    rj.register.method("local_search")(lambda problem, budget: None)
except rj.RegalError as error:
    assert "is taken by regal_jax.methods.refinement.run_local_search" in str(error)
else:
    raise AssertionError
"""
    imported(code)
