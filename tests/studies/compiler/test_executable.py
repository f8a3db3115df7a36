"""Compiled programs in files, and how they run."""

import jax
import pytest
from jax._src.config import enable_compilation_cache
from jax.experimental.compilation_cache import compilation_cache

from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.datasets import jax_train_steps
from regal_jax.studies.compiler import executable


@pytest.mark.parametrize("name", ["mmoe/inference", "mmoe/training_adam"])
def test_programs_in_files_run_in_turns(name, tmp_path, monkeypatch):
    monkeypatch.setattr(executable, "BLOCK_SECONDS", 1e-6)
    one = jax_train_steps.program(name)
    compilation_cache.reset_cache()  # JAX decides once whether it is used
    with enable_compilation_cache(False):  # what comes out of it can't go to a file
        compiled = one.jitted().lower(*one.shapes).compile()
    compilation_cache.reset_cache()
    programs = {
        method: executable.write(compiled, tmp_path / method, "a way", {"total_bytes": size})
        for method, size in ((PLAIN, 2.0), ("ours", 1.0))
    }
    found = executable.run(name, programs, blocks=3)
    assert found[PLAIN, "ran"] == found["ours", "ran"] == found["ours", "equal"] == 1
    assert found["ours", "difference"] == 0
    assert found[PLAIN, "run_seconds"] > 0
    least, middle, most = (found["ours", f"run_ratio{which}"] for which in ("_least", "", "_most"))
    assert 0 < least <= middle <= most
    assert (PLAIN, "run_ratio") not in found


def test_a_program_that_does_not_fit_is_said_not_to(tmp_path, monkeypatch):
    def load(*parts):
        def full(*args):
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")

        return full

    monkeypatch.setattr(executable.serialize_executable, "deserialize_and_load", load)
    (tmp_path / "file").write_bytes(executable.pickle.dumps(()))
    programs = {PLAIN: executable.Executable(tmp_path / "file", "a way", {"total_bytes": 1.0})}
    assert executable.run("mmoe/inference", programs, blocks=1) == {(PLAIN, "ran"): 0.0}
