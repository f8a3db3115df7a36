"""``regal-jax experiment``: launchers by name, with their own flagfiles."""

import pytest

from regal_jax import cli, shipped
from regal_jax.cli import experiment


def run(*arguments):
    return cli.main(["experiment", *arguments])


def test_all_launchers_are_listed(capsys):
    assert run() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == list(shipped.launchers())
    (row,) = (line for line in lines if line.startswith("regal_memory "))
    assert "smoke, small, paper" in row
    assert "REGAL on peak memory" in row


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("regal_memry",), "did you mean regal_memory?"),
        (("stg", "--flagfile=paper"), "--flagfile=paper: stg has smoke, small"),
        (("quickstart", "--flagfile=smoke"), "quickstart has no flagfile of its own"),
    ],
)
def test_what_there_is_not_is_one_line(capsys, arguments, message):
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_flags_reach_the_launcher(monkeypatch):
    called = []

    class Done:
        returncode = 0

    monkeypatch.setattr(experiment.subprocess, "run", lambda c: called.append(c) or Done)
    assert run("regal_memory", "--flagfile=smoke", "--flagfile=mine.flags", "--help") == 0
    flagfile = shipped.experiments() / "flags/smoke/regal_memory.flags"
    assert called[0][1:] == [
        shipped.launchers()["regal_memory"],
        f"--flagfile={flagfile}",
        "--flagfile=mine.flags",
        "--help",
    ]


def test_its_failure_is_the_commands(capfd):
    with pytest.raises(SystemExit) as stop:
        run("regal_memory", "--no_such_flag")
    assert stop.value.code == 1
    assert "no_such_flag" in capfd.readouterr().err
