"""The command line on graphs with machine types."""

import numpy as np
import pytest

import regal_jax as rj
from regal_jax import cli
from regal_jax.datasets import job_shop

JOBS = "2 3\n0 3 1 2 2 2\n2 4 0 1 1 3\n"


@pytest.fixture
def jobs(tmp_path, capsys):
    """The file of a job shop of two jobs on three machines, imported."""
    source, path = tmp_path / "jobs.txt", tmp_path / "jobs.json"
    source.write_text(JOBS)
    assert run("import", source, "--job_shop", "--output", path) == 0
    capsys.readouterr()
    return path


def run(*arguments) -> int:
    return cli.main([str(argument) for argument in arguments])


def test_a_job_shop_is_imported_scheduled_and_checked(jobs, tmp_path, capsys):
    result = tmp_path / "s.json"
    flags = ["--objective=makespan", "--evaluations=500", "--output", result]
    assert run("schedule", jobs, *flags) == 0
    out = capsys.readouterr().out
    assert "best rule (" in out
    schedule = rj.load_schedule(result)
    assert schedule.num_devices == 3
    assert rj.evaluate(rj.load_graph(jobs), schedule).makespan == schedule.makespan
    assert run("check", jobs, result) == 0
    assert capsys.readouterr().out.startswith("valid on 3 machine types: makespan")


def test_a_changed_schedule_is_refused(jobs, tmp_path, capsys):
    result = tmp_path / "s.json"
    run("schedule", jobs, "--objective=makespan", "--method=spt", "--output", result)
    schedule = rj.load_schedule(result)
    start = schedule.start.copy()
    start[np.argmax(start)] = 0.0
    rj.save_schedule(schedule.replace(start=start), result)
    capsys.readouterr()
    assert run("check", jobs, result) == cli.USAGE_ERROR
    assert capsys.readouterr().err.count("\n") == 1


def test_info_shows_machine_types(jobs, capsys):
    assert run("info", jobs) == 0
    out = capsys.readouterr().out
    assert "capacity of machine types" in out
    assert "1 1 1" in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--num_devices=2"], "the graph has 3 machine types"),
        (["--method=regal_paper"], "places ops on identical devices"),
        (["--memory_capacity=5"], "don't apply to graphs with machine types"),
    ],
)
def test_what_does_not_fit_is_one_line(jobs, capsys, flags, message):
    assert run("schedule", jobs, "--objective=makespan", *flags) == cli.USAGE_ERROR
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_malformed_job_shop_names_the_line(tmp_path, capsys):
    source = tmp_path / "jobs.txt"
    source.write_text("2 3\n0 3 1 2 2 2\n2 4 0 1 1\n")
    assert run("import", source, "--job_shop", "--output", tmp_path / "o.json") == cli.USAGE_ERROR
    assert "line 3" in capsys.readouterr().err
    assert not (tmp_path / "o.json").exists()


def test_the_classic_instances_are_in_the_package():
    assert len(job_shop.classic_job_shops()) == 156
