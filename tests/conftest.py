"""Hypothesis without clocks, since a busy machine is no failure; XLA without optimisation, since
tests compile for longer than they run."""

import os

from hypothesis import HealthCheck, settings

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0"

settings.register_profile("no clocks", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clocks")
