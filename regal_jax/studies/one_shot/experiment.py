"""What the launchers of one-shot priority sampling share: flags, graphs, policies, a comparison.

A launcher calls the ``define_*`` functions it needs at import, and the others in its main.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from absl import flags

from regal_jax import api
from regal_jax.datasets import machine_corpora
from regal_jax.datasets.task_graphs import Bounds
from regal_jax.errors import RegalError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.reporting import figures, plots, progress, training_plot
from regal_jax.search.rcpsp.rules import RULES
from regal_jax.search.rcpsp.search import PAPER_EVALUATIONS
from regal_jax.studies import flags as config_flags
from regal_jax.studies.comparison import searches
from regal_jax.studies.comparison.searches import Run
from regal_jax.studies.one_shot import tables
from regal_jax.studies.one_shot.tables import MachineLine
from regal_jax.studies.topoformer import plots as topoformer_plots
from regal_jax.training import checkpoints
from regal_jax.training.one_shot import OneShotTraining, train_one_shot
from regal_jax.training.trainer import EpochGraphs

FLAGS = flags.FLAGS

METHODS = (
    *("one_shot", "critical_path", "mopnr", "spt"),
    *("random_search", "brkga", "justification", "cp_sat", "auto"),
)
LEARNED = "one_shot"
NONE: Mapping[str, Any] = MappingProxyType({})
WARM_UP = 100
"""Evaluations in which a search compiles all that it needs; BRKGA needs its own budget for that."""

Graphs = Mapping[str, Sequence[ComputationGraph]]
"""Test graphs by setting."""
Policies = Mapping[str, Path | None]
"""Policy files by setting; None is the shipped one for the graph at hand."""


class Corpus(NamedTuple):
    """What a policy is trained on: its name, graphs to train on, graphs to choose parameters by."""

    name: str
    graphs: Sequence[ComputationGraph] | EpochGraphs
    validation: Sequence[ComputationGraph]


def define_settings(default: Sequence[str]) -> None:
    """Which graphs, by their names in ``machine_corpora``."""
    flags.DEFINE_list("settings", list(default), "Test graphs, such as 'job_shop 25x10'.")
    flags.DEFINE_string("data_dir", None, "Folder of the files of TPC-H.")


def define_sizes() -> None:
    """How many graphs there are at most of each setting; the paper has no more than that."""
    flags.DEFINE_integer("test_graphs", 300, "Most test graphs of a setting.")
    flags.DEFINE_integer("train_graphs", 3000, "Most of the paper's training graphs of a setting.")


def define_policy() -> None:
    """Which policy is tested, where there is one."""
    flags.DEFINE_string("policy", None, "Policy file to load, or 'shipped'; else one is trained.")


def define_training() -> None:
    """How policies are made."""
    origins = ["paper", "fresh"]
    text = "The paper's graphs, a policy a setting; or new ones in each epoch, one policy for all."
    flags.DEFINE_enum("train_instances", "paper", origins, text)
    flags.DEFINE_list("train_settings", None, "Settings of fresh graphs; those of the tests.")
    flags.DEFINE_integer("epoch_graphs", 300, "Fresh graphs of an epoch.")
    flags.DEFINE_integer("validation_graphs", 30, "Validation graphs, always fresh ones.")
    flags.DEFINE_integer("train_seeds", 1, "Trainings, of which the best in validation is tested.")
    config_flags.define(OneShotConfig)
    config_flags.define(OneShotTraining)


def define_comparison(*, methods: Sequence[str] = METHODS) -> None:
    """What to run, and its budgets (section 5, appendices D and G)."""
    flags.DEFINE_list("methods", list(methods), "What to run.")
    flags.DEFINE_list("test_samples", ["16", "64", "256"], "Rankings sampled by a policy, S(N).")
    flags.DEFINE_integer("random_samples", 256, "Priorities of random_search.")
    flags.DEFINE_integer("search_evaluations", 5000, "Budget of brkga and justification.")
    flags.DEFINE_float("cp_seconds", 60.0, "Time limit of cp_sat.")
    flags.DEFINE_integer("seeds", 1, "Seeds of the methods that are random.")


def define_genetic() -> None:
    """The budget of appendix G."""
    flags.DEFINE_integer("genetic_evaluations", PAPER_EVALUATIONS, "Schedules of a genetic search.")


def test_graphs(settings: Sequence[str]) -> dict[str, list[ComputationGraph]]:
    """The paper's test graphs of the settings."""
    return {
        name: machine_corpora.published_graphs(name, "test", FLAGS.test_graphs, FLAGS.data_dir)
        for name in settings
    }


def corpora(settings: Sequence[str]) -> dict[str, Corpus]:
    """What is trained on for each setting, by --train_instances."""
    if FLAGS.train_instances == "fresh":
        return dict.fromkeys(settings, fresh_corpus(FLAGS.train_settings or settings))
    return {setting: _paper_corpus(setting) for setting in settings}


def fresh_corpus(settings: Sequence[str]) -> Corpus:
    """New graphs in every epoch, of the settings in turns (ours)."""
    seed, count, folder = FLAGS.seed, FLAGS.epoch_graphs, FLAGS.data_dir

    def epoch_graphs(epoch: int) -> list[ComputationGraph]:
        stream = (machine_corpora.TRAINING, seed, epoch)
        return machine_corpora.fresh_graphs(settings, count, stream, folder)

    return Corpus("fresh", epoch_graphs, _validation(settings))


def policies(found: Mapping[str, Corpus], folder: Path) -> dict[str, Path | None]:
    """The policies to test: --policy, the shipped ones, or one trained for each corpus; none
    without one_shot among --methods."""
    if LEARNED not in FLAGS.methods:
        return {}
    if FLAGS.policy is not None:
        return dict.fromkeys(found, given_policy())
    trained = {corpus.name: corpus for corpus in found.values()}
    files = {name: train(corpus, folder / _slug(name)) for name, corpus in trained.items()}
    return {setting: files[corpus.name] for setting, corpus in found.items()}


def given_policy() -> Path | None:
    """The file of --policy; None is the shipped one for the graph at hand."""
    return None if FLAGS.policy == "shipped" else Path(FLAGS.policy)


def train(
    corpus: Corpus,
    folder: Path,
    *,
    policy: Mapping[str, Any] = NONE,
    training: Mapping[str, Any] = NONE,
) -> Path:
    """The best, in validation, of --train_seeds policies; arguments have what differs from the
    flags of OneShotConfig and OneShotTraining."""
    config = dataclasses.replace(_config(corpus), **policy)
    first = dataclasses.replace(config_flags.read(OneShotTraining, FLAGS), **training)
    found = []
    for seed in range(first.seed, first.seed + FLAGS.train_seeds):
        own = folder / f"seed_{seed}"
        file = _trained(corpus, own, config, dataclasses.replace(first, seed=seed))
        found.append((checkpoints.load_policy(file, OneShotConfig)[2]["validation_cost"], file))
        figures.drawn(training_plot.plot_training, own / "metrics.csv", own / "costs.png")
    return min(found)[1]


def runs(policy: Path | None) -> list[Run]:
    """The rows of a table: --methods, a policy's greedy and sampled schedules for one_shot."""
    found: list[Run] = []
    for method in FLAGS.methods:
        found += learned(LEARNED, policy) if method == LEARNED else [baseline(method)]
    return found


def learned(name: str, policy: Path | None) -> list[Run]:
    """A policy's schedules, greedy and the best of N samples (section 5)."""
    greedy = {"policy": policy, "decoding": "greedy"}
    sampled = {"policy": policy, "decoding": "sample"}
    return [
        Run(f"{name} greedy", LEARNED, 1, options=greedy, warm_up=1),
        *(
            Run(f"{name} S({count})", LEARNED, int(count), options=sampled, warm_up=1)
            for count in FLAGS.test_samples
        ),
    ]


def genetic(name: str, method: str, options: Mapping[str, Any]) -> Run:
    """A genetic search of --genetic_evaluations (appendix G)."""
    count = FLAGS.genetic_evaluations
    return Run(f"{name} {count}", method, count, options=options)


def baseline(method: str, options: Mapping[str, Any] = NONE) -> Run:
    """Another method at its budget, with a cheap warm-up; with options named in its label."""
    kind = " ".join(map(str, (method, *options.values())))
    budget = FLAGS.search_evaluations
    if method in RULES:
        return Run(kind, method, 1, options=options, warm_up=1)
    if method == "cp_sat":
        limit = {"time_limit": FLAGS.cp_seconds, **options}
        return Run(f"{kind} {FLAGS.cp_seconds:g}s", method, budget, options=limit)
    if method == "random_search":
        return Run(f"{kind} {FLAGS.random_samples}", method, FLAGS.random_samples, (), options, 1)
    if method == "auto":
        return Run(kind, method, None, options=options, warm_up=min(budget, WARM_UP))
    warm_up = budget if method == "brkga" else min(budget, WARM_UP)
    return Run(f"{kind} {budget}", method, budget, (), options, warm_up)


def compare(
    graphs: Graphs,
    by_setting: Mapping[str, Sequence[Run]],
    folder: Path,
    bounds: Mapping[str, Bounds] | None = None,
) -> list[dict]:
    """Rows of ``searches.compare`` for each setting's runs, with --seeds for random methods.

    Seconds are those of ``optimize``: features and reading the policy count. Compilation doesn't,
    since another search on the same graph comes first; except with a time limit, and in ``genetic``
    searches, of which the first graph of a size has it.

    Raises:
      RegalError: for a makespan below a known bound: the cost or the data must be wrong.
    """
    rows: list[dict] = []
    for setting, some in by_setting.items():
        own = {setting: graphs[setting]}
        for part, seeds in ((_fixed(some), 1), (_random(some), FLAGS.seeds)):
            with progress.bar(setting, seeds * len(part) * len(graphs[setting])) as update:
                rows = searches.compare(
                    own,
                    part,
                    seeds=seeds,
                    path=folder / "results.csv",
                    objective="makespan",
                    platform=searches.PlatformRule(num_devices=None),
                    on_progress=lambda done, total: update(done),
                )
    check(rows, bounds or {})
    return rows


def check(rows: Sequence[dict], bounds: Mapping[str, Bounds]) -> None:
    """Raises RegalError for a makespan that is too good to be true."""
    for row in rows:
        known = bounds.get(row["graph"])
        if row["metric"] == "cost" and known is not None and row["value"] < known.lower:
            raise RegalError(
                f"{row['method']} on {row['graph']}: makespan {row['value']:g} is below the known"
                f" bound {known.lower:g}; the cost or the data must be wrong"
            )


def report(
    rows: Sequence[dict],
    graphs: Graphs,
    by_setting: Mapping[str, Sequence[Run]],
    *,
    best_known: Mapping[str, float] | None = None,
    published: tables.Published = NONE,
    speedup: bool = False,
) -> dict[str, list[MachineLine]]:
    """Prints a table for every setting; returns its lines."""
    lines = {}
    for setting, some in by_setting.items():
        labels = [run.label for run in some]
        lines[setting] = tables.summary(rows, setting, graphs[setting], labels, best_known)
        title = f"{setting}: {'speedup' if speedup else 'makespan'}, gap from {origin(best_known)}"
        beside = published.get(setting)
        print(tables.text(title, lines[setting], speedup=speedup, published=beside) + "\n")
    return lines


def draw(
    lines: Mapping[str, Sequence[MachineLine]],
    graphs: Graphs,
    by_setting: Mapping[str, Sequence[Run]],
    folder: Path,
    *,
    best_known: Mapping[str, float] | None = None,
) -> None:
    """Gaps against seconds, and the first graph's schedule, where matplotlib is there."""
    dots = {name: tables.gaps_and_times(some) for name, some in lines.items()}
    labels = {"reference": origin(best_known), "title": "Makespan and run time"}
    figures.drawn(topoformer_plots.plot_gap_against_time, dots, folder / "gaps.png", **labels)
    setting, some = next(iter(by_setting.items()))
    figures.drawn(_draw_schedule, graphs[setting][0], some, folder / "schedule.png")


def origin(best_known: Mapping[str, float] | None) -> str:
    """What gaps are measured from."""
    return "the lower bound" if best_known is None else "the best known"


def _draw_schedule(graph: ComputationGraph, some: Sequence[Run], path: Path) -> None:
    """The schedule of the last run of a policy; of the last run at all, if there is no policy."""
    run = ([run for run in some if run.method == LEARNED] or list(some))[-1]
    found = api.optimize(
        graph,
        objective="makespan",
        method=run.method,
        evaluations=run.evaluations,
        **run.options,
    )
    plots.plot_gantt(graph, found, path)


def _paper_corpus(setting: str) -> Corpus:
    found = machine_corpora.published_graphs(setting, "train", FLAGS.train_graphs, FLAGS.data_dir)
    return Corpus(setting, found, _validation([setting]))


def _validation(settings: Sequence[str]) -> list[ComputationGraph]:
    """The paper has none; ours are in neither of its splits."""
    count, stream = FLAGS.validation_graphs, (machine_corpora.VALIDATION,)
    return machine_corpora.fresh_graphs(settings, count, stream, FLAGS.data_dir)


def _config(corpus: Corpus) -> OneShotConfig:
    """The flags', with as many machine types as there are, where features depend on that."""
    config = config_flags.read(OneShotConfig, FLAGS)
    if config.feature_set != "paper":
        return config
    types = max(int(graph.machine_type.max()) + 1 for graph in corpus.validation)
    return dataclasses.replace(config, num_types=max(config.num_types, types))


def _trained(corpus: Corpus, folder: Path, policy: OneShotConfig, config: OneShotTraining) -> Path:
    count = FLAGS.epoch_graphs if callable(corpus.graphs) else len(corpus.graphs)
    steps = config.epochs * -(-count // max(config.batch_size, 1))
    with progress.bar(f"training on {corpus.name}", steps) as update:
        return train_one_shot(
            corpus.graphs,
            corpus.validation,
            policy=policy,
            config=config,
            directory=folder,
            about={"objective": "makespan", "dataset": corpus.name},
            on_step=lambda step, metrics: update(step, f"cost {metrics['cost']:.3f}"),
        )


def _is_fixed(run: Run) -> bool:
    """Whether a run isn't random, or is so expensive that one seed is enough."""
    greedy = run.options.get("decoding") == "greedy"
    return run.method in RULES or run.method == "cp_sat" or greedy


def _fixed(some: Sequence[Run]) -> list[Run]:
    return [run for run in some if _is_fixed(run)]


def _random(some: Sequence[Run]) -> list[Run]:
    return [run for run in some if not _is_fixed(run)]


def _slug(name: str) -> str:
    return f"training_{name.replace(' ', '_')}"
