"""Programs that run on the device that is here."""

import pytest

from regal_jax.errors import OptionError
from regal_jax.studies.compiler import device_runs, executable, side_by_side
from regal_jax.studies.compiler.device_runs import Settings
from tests.experiments.test_launchers import EXPERIMENTS, launch


def test_an_unknown_program_stops_the_study_before_it_begins(tmp_path):
    with pytest.raises(OptionError, match="no 'gpt/training'"):
        device_runs.measure(Settings(programs=("mmoe/training", "gpt/training@1GiB")), tmp_path)
    with pytest.raises(OptionError, match="checkpointed: by block: not of nothing saved"):
        device_runs.measure(Settings(checkpointed=("by block",)), tmp_path)
    assert not list(tmp_path.iterdir())


def test_programs_run_and_a_second_run_makes_nothing(tmp_path):
    flags = EXPERIMENTS / "flags" / "smoke" / "device_runs.flags"
    first = launch("device_runs.py", f"--flagfile={flags}", f"--output_dir={tmp_path}")
    file = tmp_path / "results.csv"
    written = file.read_text()
    assert "mmoe/training_adam*2" in first
    assert written.count("run_seconds") == 4
    assert ",difference,0.0," in written
    launch("device_runs.py", f"--flagfile={flags}", f"--output_dir={tmp_path}")
    assert file.read_text() == written
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_budget_that_nothing_fits_leaves_the_others_of_the_program(tmp_path):
    one = Settings(
        programs=("actor_critic/training@1KiB",), blocks=1, checkpointed=("nothing saved",)
    )
    rows = device_runs.measure(one, tmp_path)
    ran = {row["method"] for row in rows if row["metric"] == "ran"}
    assert ran == {"xla_default", "nothing saved"}


def test_what_a_stopped_run_compiled_is_not_compiled_again(tmp_path, monkeypatch):
    one, in_process = (
        Settings(programs=("actor_critic/training",), blocks=1),
        side_by_side.in_process,
    )

    def stopped(function, *args):
        if function is executable.run:
            raise KeyboardInterrupt
        return in_process(function, *args)

    monkeypatch.setattr(side_by_side, "in_process", stopped)
    with pytest.raises(KeyboardInterrupt):
        device_runs.measure(one, tmp_path)
    compiled = [path for path in (tmp_path / "programs").iterdir() if path.suffix != ".said"]
    spent = {executable.known(path).values["compile_seconds"] for path in compiled}
    assert len(spent) == 2
    monkeypatch.undo()
    rows = device_runs.measure(one, tmp_path)
    assert {row["value"] for row in rows if row["metric"] == "compile_seconds"} == spent
    assert not (tmp_path / "programs").exists()
