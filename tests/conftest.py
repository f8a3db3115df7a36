"""Hypothesis and progress without clocks, since a busy machine is no failure; XLA without
optimisation, its code in one piece, and, where that can be chosen, without the emitters that make
up two thirds of its time, since tests compile for longer than they run; and no program outlives its
module of tests: a process that keeps thousands of them runs out of memory maps, and crashes."""

import os

import jax
import pytest
from hypothesis import HealthCheck, settings

from regal_jax.reporting import progress

FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
if jax.__version_info__ < (0, 11):
    FLAGS += " --xla_cpu_use_fusion_emitters=false"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}"

settings.register_profile("no clocks", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clocks")
progress.EVERY = 3600.0


@pytest.fixture(scope="module", autouse=True)
def programs_of_this_module():
    """JAX's caches are empty in the end, and it keeps none on disk, as the command line does."""
    yield
    jax.config.update("jax_compilation_cache_dir", None)
    jax.clear_caches()
