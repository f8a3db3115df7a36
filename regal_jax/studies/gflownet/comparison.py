"""Comparisons of robust scheduling: what is run, on which targets, and its rows."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from regal_jax import registry
from regal_jax.environments.execution import targets
from regal_jax.environments.execution.targets import TargetModel
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods.samplers import sample_gflownet
from regal_jax.options import Budget, Options
from regal_jax.search.placements.candidates import Candidates
from regal_jax.studies.comparison import candidates
from regal_jax.studies.comparison.candidates import Measure, Policies, Row, Search, Trial
from regal_jax.studies.gflownet import tables
from regal_jax.studies.gflownet.settings import Comparison

TRIALS = "trials"
"""Behind a method: see ``Search``."""


def target_models(files: Iterable[str]) -> dict[str, TargetModel]:
    """Those of files by name. OptionError for names that aren't unique, or of a metric."""
    models = [targets.read_target(path) for path in files]
    names = [model.name for model in models]
    for name in names:
        if names.count(name) > 1 or name in tables.OWN:
            raise OptionError(f"targets: the name {name!r} is taken")
    return dict(zip(names, models, strict=True))


def searches(settings: Comparison) -> list[Search]:
    """Those of --methods. OptionError for one that is no sampler."""
    return [_search(label, settings) for label in settings.methods]


def compare(
    graphs: Mapping[str, Sequence[ComputationGraph]],
    found: Policies,
    folder: Path,
    settings: Comparison,
    measure: Measure | None = None,
) -> list[Row]:
    """Rows of ``candidates.compare`` for --methods, with --seeds."""
    return candidates.compare(
        graphs,
        searches(settings),
        trial(settings, found),
        seeds=settings.seeds,
        path=folder / "results.csv",
        measure=measure,
        executor=settings.executor,
    )


def trial(settings: Comparison, found: Policies | None = None) -> Trial:
    """What searches have in common."""
    models = target_models(settings.targets)
    devices, count = settings.num_devices, settings.candidates
    return Trial(devices, count, models, found or {}, settings.noise_draws)


def chosen(
    rows: Iterable[Row],
    settings: Iterable[str],
    methods: Sequence[str],
    label: str | None = None,
) -> list[Row]:
    """The rows of some settings, of these methods in their order; with a label, as one setting."""
    order, kept = {name: place for place, name in enumerate(methods)}, set(settings)
    some = [row for row in rows if row["setting"] in kept and row["method"] in order]
    some = [row | {"setting": label or row["setting"]} for row in some]
    return sorted(some, key=lambda row: order[row["method"]])


def sampled(
    graph: ComputationGraph,
    policy: Path | None,
    temperatures: Iterable[float],
    count: int,
    num_devices: int,
) -> dict[str, Candidates]:
    """Schedules of a GFlowNet by temperature, ``count`` at each; the policy None is the shipped."""
    problem = candidates.proxy(graph, num_devices)
    return {
        f"{value:g}": sample_gflownet(
            problem, Budget(count, options=Options(policy=policy, temperature=value))
        )
        for value in temperatures
    }


def _search(label: str, settings: Comparison) -> Search:
    method, *more = label.split(" ")
    in_trials, numbers = TRIALS in more, [word for word in more if word != TRIALS]
    samplers = registry.names("sampler")
    if method not in samplers or not all(map(str.isdecimal, numbers)) or len(numbers) > 1:
        raise OptionError(
            f"methods: {label!r} is none of {', '.join(samplers)}, perhaps with a budget, and with"
            f" {TRIALS!r}"
        )
    number = int(*numbers)
    temperatures = {
        "gflownet": settings.training.test_temperature,
        "metropolis": settings.training.test_temperature,
        "ppo": settings.ppo.temperature,
    }
    return Search(
        label,
        method,
        samples=number or settings.samples,
        evaluations=number or settings.evaluations,
        temperature=temperatures.get(method),
        trials=in_trials,
    )
