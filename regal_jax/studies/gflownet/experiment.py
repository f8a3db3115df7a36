"""What the launchers of robust scheduling with GFlowNets share: flags, training, a comparison.

A launcher calls the ``define_*`` functions it needs at import, and the others in its main.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from absl import flags

from regal_jax.environments.execution import targets
from regal_jax.environments.execution.targets import TargetModel
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods.samplers import SAMPLERS, SampleBudget
from regal_jax.policies.gflownet.policy import FlowConfig
from regal_jax.reporting import figures, progress, results
from regal_jax.reporting.curves import Curve, read_curve
from regal_jax.search.placements.candidates import Candidates
from regal_jax.studies import flags as config_flags
from regal_jax.studies.comparison import candidates
from regal_jax.studies.comparison.candidates import COLUMNS, Measure, Policies, Row, Search, Trial
from regal_jax.studies.gflownet import plots, tables
from regal_jax.studies.gflownet.tables import Line, PaperTable
from regal_jax.training import gflownet, ppo
from regal_jax.training.flow import VALIDATION, train_flow
from regal_jax.training.gflownet import FlowTraining
from regal_jax.training.ppo import PPOTraining
from regal_jax.training.trainer import Learner

FLAGS = flags.FLAGS

METHODS = (
    *("critical_path", "brkga", "random_search"),
    *("list_sampling", "price_sweep", "one_shot", "ppo", "gflownet"),
)
LEARNED = ("gflownet", "ppo")
TARGETS = tuple(f"experiments/targets/{name}.toml" for name in ("noisy", "bandwidth", "latency"))
NONE: Mapping[str, Any] = MappingProxyType({})

PPO = "ppo_"
"""How the names of PPO's own flags begin."""

SHARED = (
    *("num_devices", "clip_norm", "min_subgraph", "max_subgraph"),
    *("validation_samples", "validation_top", "seed"),
)
"""What PPO is trained with as GFlowNets are."""


class Corpus(NamedTuple):
    """What policies are trained on: its name, the graphs, and unseen ones to look at meanwhile."""

    name: str
    graphs: Sequence[ComputationGraph]
    validation: Sequence[ComputationGraph]


def define_training() -> None:
    """How GFlowNets are trained."""
    config_flags.define(FlowConfig, shared=["num_devices"])
    config_flags.define(FlowTraining)


def define_seeds() -> None:
    """How often."""
    flags.DEFINE_integer("seeds", 1, "Seeds of all that is random.")


def define_policies(*, retrain: bool) -> None:
    """Where the policies come from; by default they are trained."""
    text = "Policy file of {}, or 'shipped'; else one is trained."
    flags.DEFINE_string("policy", None, text.format("gflownet"))
    flags.DEFINE_string("ppo_policy", None, text.format("ppo"))
    flags.DEFINE_boolean("retrain", retrain, "Each of --seeds has policies trained with it.")
    define_training()
    config_flags.define(PPOTraining, prefix=PPO, shared=SHARED)


def define_comparison(
    *, methods: Sequence[str] = METHODS, targets: Sequence[str] = TARGETS
) -> None:
    """What to run, its budgets (section 5), and what its schedules are tried on."""
    text = "What to run; a number behind a method, as in 'brkga 50000', is its own budget."
    flags.DEFINE_list("methods", list(methods), text)
    flags.DEFINE_integer("samples", 1000, "Schedules drawn by samplers that don't search.")
    flags.DEFINE_integer("evaluations", 5000, "Evaluations of those that do, such as brkga.")
    flags.DEFINE_integer("candidates", 100, "Best schedules of each, to be tried on the targets.")
    flags.DEFINE_list("targets", list(targets), "Files of target models.")
    define_seeds()


def target_models() -> dict[str, TargetModel]:
    """Those of --targets by name. OptionError for names that aren't unique, or of a metric."""
    models = [targets.read_target(path) for path in FLAGS.targets]
    names = [model.name for model in models]
    for name in names:
        if names.count(name) > 1 or name in tables.OWN:
            raise OptionError(f"targets: the name {name!r} is taken")
    return dict(zip(names, models, strict=True))


def searches() -> list[Search]:
    """Those of --methods. OptionError for one that is no sampler."""
    return [_search(label) for label in FLAGS.methods]


def policies(corpus: Corpus, folder: Path) -> dict[tuple[str, int], Path | None]:
    """The policies of the learned ones of --methods: given, shipped, or trained on a corpus, with
    --retrain one for each seed."""
    trial()  # whose errors should come before hours of training
    given = {"gflownet": FLAGS.policy, "ppo": FLAGS.ppo_policy}
    found: dict[tuple[str, int], Path | None] = {}
    for system in dict.fromkeys(search.method for search in searches() if search.method in LEARNED):
        for seed in range(FLAGS.seeds):
            if given[system] is not None:
                found[system, seed] = given_policy(given[system])
            elif seed == 0 or FLAGS.retrain:
                found[system, seed] = train(system, corpus, folder, seed)
            else:
                found[system, seed] = found[system, 0]
    return found


def given_policy(file: str) -> Path | None:
    """The file that a flag has; None is the shipped one."""
    return None if file == "shipped" else Path(file)


def train(
    system: str,
    corpus: Corpus,
    folder: Path,
    seed: int = 0,
    *,
    name: str | None = None,
    changes: Mapping[str, Any] = NONE,
) -> Path:
    """A policy of "gflownet" or "ppo", trained in its folder in ``training_folder``.

    Args:
      seed: added to --seed.
      name: of the folder, by default the system's.
      changes: what differs from the flags of FlowTraining.
    """
    policy, plan = config_flags.read(FlowConfig, FLAGS), _plan(system)
    plan = dataclasses.replace(plan, seed=plan.seed + seed, **changes)
    with progress.bar(f"{name or system} on {corpus.name}", plan.steps) as update:
        return train_flow(
            corpus.graphs,
            corpus.validation,
            learner=_learner(policy, plan),
            policy=policy,
            plan=plan,
            directory=training_folder(folder, name or system) / f"seed_{seed}",
            about={"objective": "makespan", "dataset": corpus.name},
            on_step=lambda step, metrics: update(step, f"speedup {metrics['speedup']:.3f}"),
        )


def training_folder(folder: Path, name: str) -> Path:
    """Where policies are trained, a folder for each seed."""
    return folder / f"training_{name.replace(':', '-')}"


def compare(
    graphs: Mapping[str, Sequence[ComputationGraph]],
    found: Policies,
    folder: Path,
    measure: Measure | None = None,
) -> list[Row]:
    """Rows of ``candidates.compare`` for --methods, with --seeds."""
    with progress.bar("graphs", sum(map(len, graphs.values()))) as update:
        return candidates.compare(
            graphs,
            searches(),
            trial(found),
            seeds=FLAGS.seeds,
            path=folder / "results.csv",
            measure=measure,
            on_progress=lambda done, total: update(done),
        )


def trial(found: Policies | None = None) -> Trial:
    """What searches have in common, by the flags."""
    return Trial(FLAGS.num_devices, FLAGS.candidates, target_models(), found or {})


def chosen(rows: Iterable[Row], settings: Iterable[str], label: str | None = None) -> list[Row]:
    """The rows of some settings, of --methods in their order; with a label, as one setting."""
    order, kept = {name: place for place, name in enumerate(FLAGS.methods)}, set(settings)
    some = [row for row in rows if row["setting"] in kept and row["method"] in order]
    some = [row | {"setting": label or row["setting"]} for row in some]
    return sorted(some, key=lambda row: order[row["method"]])


def report(
    rows: Sequence[Row],
    setting: str,
    summary: Callable[[Sequence[Row], str], Sequence[Line]],
    paper: PaperTable = NONE,
) -> None:
    """Prints the table of a setting, GFlowNet's differences from the others on the targets (on the
    proxy, without targets), and the seconds.

    Args:
      summary: ``tables.over_seeds`` or ``over_graphs``.
      paper: the table to set beside ours.
    """
    title = f"{setting}: speedups and diversity of the best {FLAGS.candidates} schedules"
    print(tables.text(title, summary(rows, setting), paper) + "\n")
    compared = tables.targets(rows) or list(tables.SPEEDUPS)
    print_pairs(rows, setting, "gflownet", compared)
    seconds = candidates.mean_seconds(rows, setting)
    print("seconds to sample: " + ", ".join(f"{m} {t:.2g}" for m, t in seconds.items()) + "\n")


def print_pairs(
    rows: Sequence[Row], setting: str, method: str, compared: Sequence[str] | None = None
) -> None:
    """Prints what a method has more than each of the others, where both were run."""
    if pairs := tables.paired(rows, setting, method, compared):
        title = f"{setting}: {method} less the others, of the same graph and seed"
        print(tables.paired_text(title, pairs) + "\n")


def train_variants(
    corpus: Corpus, folder: Path, variants: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[Path]]:
    """GFlowNets by variant, one for each of --seeds; variants have what differs from the flags."""
    return {
        name: [
            train("gflownet", corpus, folder, seed, name=name, changes=changes)
            for seed in range(FLAGS.seeds)
        ]
        for name, changes in variants.items()
    }


def regime(name: str) -> dict[str, float]:
    """What a regime of temperatures, "T" or "LOW:HIGH", changes: those of training, and that
    schedules are drawn at the lowest of them (appendix F)."""
    try:
        low, high = (float(part) for part in (name.split(":") * 2)[:2])
    except ValueError:
        raise OptionError(f"regimes: {name!r} is neither T nor LOW:HIGH") from None
    return {"min_temperature": low, "max_temperature": high, "test_temperature": low}


def report_variants(files: Mapping[str, Sequence[Path]], setting: str, folder: Path) -> list[Row]:
    """Prints what the trainings of variants reported, means over the seeds; the rows, which
    ``results.csv`` gets, too.

    Metrics are "quarter_1" to "quarter_4", the mean speedup of the schedules that were drawn in
    each quarter of the steps, and the last "validation_top_1" and "validation_top".
    """
    rows = []
    for label, some in files.items():
        for seed, file in enumerate(some):
            common = {"setting": setting, "graph": setting, "ops": "", "method": label}
            read = _training_metrics(file.parent / "metrics.csv")
            rows += [common | {"seed": seed, "metric": m, "value": v} for m, v in read.items()]
    results.write_results(folder / "results.csv", rows, COLUMNS)
    title = f"{setting}: speedups of schedules during training, and at its end"
    print(tables.text(title, tables.over_seeds(rows, setting)) + "\n")
    return rows


def curves(files: Mapping[str, Sequence[Path]], column: str = "speedup") -> dict[str, list[Curve]]:
    """What the trainings of policies reported, by label; without those that have no numbers."""
    found: dict[str, list[Curve]] = {}
    for label, some in files.items():
        read = [read_curve(file.parent / "metrics.csv", column) for file in some]
        found[label] = [curve for curve in read if len(curve.steps)]
    return {label: some for label, some in found.items() if some}


def draw_training(folder: Path) -> None:
    """Draws how the policies that were trained in a folder did on the validation graphs, if there
    were any. (The samples of a GFlowNet's training are of all temperatures: as it learns to tell
    them apart, their mean may well fall.)"""
    trained = {
        system: sorted(training_folder(folder, system).glob("*/*.policy")) for system in LEARNED
    }
    if found := curves(trained, "validation_top_1"):
        title = "Speedup on the validation graphs"
        path = folder / "training.png"
        figures.drawn(plots.plot_generalisation, found, path, title=title)


def sampled(
    graph: ComputationGraph, policy: Path | None, temperatures: Iterable[str], count: int
) -> dict[str, Candidates]:
    """Schedules of a GFlowNet by temperature, ``count`` at each; the policy None is the shipped."""
    problem = candidates.proxy(graph, FLAGS.num_devices)
    return {
        name: SAMPLERS["gflownet"](problem, SampleBudget(count, policy=policy, temperature=value))
        for name, value in zip(temperatures, map(float, temperatures), strict=True)
    }


def _training_metrics(path: Path) -> dict[str, float]:
    speedup = read_curve(path).values
    parts = np.array_split(speedup, 4)
    found = {f"quarter_{n}": float(part.mean()) for n, part in enumerate(parts, 1) if len(part)}
    for column in VALIDATION:
        values = read_curve(path, column).values
        found |= {column: float(values[-1])} if len(values) else {}
    return found


def _plan(system: str) -> FlowTraining | PPOTraining:
    """The hyperparameters that the flags say."""
    if system == "ppo":
        return config_flags.read(PPOTraining, FLAGS, prefix=PPO, shared=SHARED)
    return config_flags.read(FlowTraining, FLAGS)


def _learner(policy: FlowConfig, plan: FlowTraining | PPOTraining) -> Learner:
    if isinstance(plan, PPOTraining):
        return ppo.learner(policy, plan)
    return gflownet.learner(policy, plan)


def _search(label: str) -> Search:
    method, _, number = label.partition(" ")
    if method not in SAMPLERS or (number and not number.isdecimal()):
        raise OptionError(
            f"methods: {label!r} is none of {', '.join(SAMPLERS)}, perhaps with a budget"
        )
    temperature = {"gflownet": "test_temperature", "ppo": f"{PPO}temperature"}.get(method)
    return Search(
        label,
        method,
        samples=int(number or FLAGS.samples),
        evaluations=int(number or FLAGS.evaluations),
        temperature=None if temperature is None else FLAGS[temperature].value,
    )
