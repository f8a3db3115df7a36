"""``regal-jax memory``: what it prints, writes, and exits with."""

import json

import pytest

from regal_jax import cli
from tests.compiler.accelerators.targets import compiler_for

STEP = """
import jax, jax.numpy as jnp

def step():
    x = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)
    return jax.jit(lambda a, b: jnp.tanh(a @ b)), (x, x)

def nothing():
    return 1
"""
MIB = 2**20


@pytest.fixture
def step(tmp_path):
    path = tmp_path / "train_step_for_memory.py"
    path.write_text(STEP)
    return f"{path}:step"


def run(*arguments):
    return cli.main(["memory", *map(str, arguments)])


def test_numbers_of_a_step(step, capsys):
    compiler_for("v5e")
    assert run(step, "--accelerator=v5e", "--json") == 0
    found = json.loads(capsys.readouterr().out)["jax.jit"]
    assert found["arguments"] == 8 * MIB
    assert found["peak"] >= 12 * MIB


def test_ours_beside_xla_s(step, capsys):
    compiler_for("v5e")
    assert run(step, "--accelerator=v5e", "--jit") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["jax.jit", "rj.jit"]


def test_a_budget_and_what_memory_costs(step, capsys):
    compiler_for("v5e")
    assert run(step, "--accelerator=v5e", "--budget=1GiB", "--json") == 0
    assert list(json.loads(capsys.readouterr().out)) == ["jax.jit", "rj.fit"]
    assert run(step, "--accelerator=v5e", "--budget=1MiB") == 1
    assert "memory_budget: 1.00 MiB is too little" in capsys.readouterr().err
    assert run(step, "--accelerator=v5e", "--frontier", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["of plain"] == "1.000"


def test_over_the_limit_is_status_1(step, capsys):
    compiler_for("v5e")
    assert run(step, "--accelerator=v5e", "--limit=1GiB", "--quiet") == 0
    assert run(step, "--accelerator=v5e", "--limit=12MiB") == 1
    assert "over --limit of 12.0 MiB" in capsys.readouterr().err


def test_above_the_baseline_is_status_1(step, tmp_path, capsys):
    compiler_for("v5e")
    path = tmp_path / "memory.json"
    flags = (step, "--accelerator=v5e", f"--baseline={path}")
    assert run(*flags) == 0
    document = json.loads(path.read_text())
    (row,) = document["peak_bytes"].values()
    row["v5e"] = int(row["v5e"] / 1.1)
    path.write_text(json.dumps(document))
    assert run(*flags, "--tolerance=0.2") == 0
    assert run(*flags) == 1
    assert "above the" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--accelerator=abacus"], "no 'abacus'"),
        (["--accelerator=v5e", "--tolerance=-1"], "--tolerance must be at least 0"),
        (["--accelerator=v5e", "--limit=lots"], "not bytes"),
        (["--accelerator=v5e", "--baseline=/no/such/folder/file.json"], "/no/such/folder"),
    ],
)
def test_bad_flags_are_one_line(step, capsys, flags, message):
    assert run(step, *flags) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_what_is_no_function(step, capsys):
    compiler_for("v5e")
    assert run(step.replace(":step", ":nothing"), "--accelerator=v5e") == 2
    assert "must return (function, arguments)" in capsys.readouterr().err
