"""What the launchers of Topoformer's experiments share: flags, graphs, policies, a comparison.

A launcher calls the ``define_*`` functions it needs at import, and the others in its main.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from regal_jax.datasets import corpora
from regal_jax.datasets.layered import layered_graphs
from regal_jax.datasets.zoo import load
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods import Decoding, best_simple_schedule
from regal_jax.methods.learned import shipped_policy
from regal_jax.policies.topological_order.policy import OrderingConfig
from regal_jax.reporting import figures, progress
from regal_jax.studies import flags as config_flags
from regal_jax.studies.comparison import searches as comparison_searches
from regal_jax.studies.comparison.searches import Run
from regal_jax.studies.regal import tables as regal_tables
from regal_jax.studies.topoformer import plots
from regal_jax.studies.topoformer import tables as topoformer_tables
from regal_jax.studies.topoformer.tables import OrderingLine, PaperTable
from regal_jax.training import checkpoints
from regal_jax.training.topological_order import OrderingTraining, train_ordering
from regal_jax.training.trainer import EpochGraphs

FLAGS = flags.FLAGS

TEST_SEED, VALIDATION_SEED, TRAINING_SEED = 0, 1, 1000
"""Of layered graphs. Epoch e of a training with seed s has those of seed 1000 + s + e, so that no
test or validation graph is ever trained on: ``layered_graphs`` of different seeds have no random
stream in common."""

RANDOM_METHODS = ("topoformer", "random_orders")
"""Those that --seeds is about; the others are run once."""

WARM_UP = 1000
"""Evaluations in which a search compiles all that it needs."""


def define_training() -> None:
    """How policies are made."""
    flags.DEFINE_integer("validation_graphs", 100, "Most validation graphs.")
    config_flags.define(OrderingConfig)
    config_flags.define(OrderingTraining)


def define_policy() -> None:
    """Which policy is tested, where there is one."""
    flags.DEFINE_string("policy", None, "Policy file to load, or 'shipped'; else one is trained.")


def define_layered(*, test_nodes: Sequence[int]) -> None:
    """Layered graphs to train and test on."""
    flags.DEFINE_integer("train_nodes", 500, "Ops of a training graph.")
    flags.DEFINE_list("test_nodes", [str(n) for n in test_nodes], "Ops of the test graphs.")
    flags.DEFINE_integer("test_graphs", 300, "Test graphs of each size.")


def define_variants(known: Mapping[str, Mapping[str, Any]]) -> None:
    """Which policies are compared with each other."""
    flags.DEFINE_list("variants", list(known), "Rows of the table.")


def define_real() -> None:
    """Real graphs to train and test on."""
    strata = ("200-500", "500-700", "700-1000", "1000-10000")
    flags.DEFINE_string("dataset", "model_zoo", "model_zoo, or a folder of graph files.")
    flags.DEFINE_integer("train_ops", 1000, "Most ops of a training or validation graph.")
    flags.DEFINE_integer("train_graphs", 10_000, "Most training graphs, evenly over sizes.")
    flags.DEFINE_integer("copies", 0, "Training graphs with other sizes, of each graph.")
    flags.DEFINE_list("strata", list(strata), "Ops of the test graphs, FROM-BELOW.")
    flags.DEFINE_integer("test_graphs", 100, "Most test graphs of a stratum, evenly over sizes.")


def define_comparison(*, methods: Sequence[str]) -> None:
    """What to run, and its budgets (section 5, C.3)."""
    flags.DEFINE_list("methods", list(methods), "What to run, approximate_dp among them.")
    flags.DEFINE_integer("test_samples", 16, "Orders sampled by a policy, and its beam width.")
    flags.DEFINE_integer("dp_width", 100_000, "K of approximate_dp.")
    flags.DEFINE_integer("guided_width", 1000, "Width of the dynamic programme a policy guides.")
    flags.DEFINE_float("dp_seconds", 3600.0, "Time limit of depth_first_dp.")
    flags.DEFINE_integer("random_orders", 100, "Orders of random_orders.")
    flags.DEFINE_integer("search_evaluations", 1_000_000, "Budget of searches, such as auto.")
    flags.DEFINE_integer("seeds", 1, f"Seeds of {' and '.join(RANDOM_METHODS)}.")


def layered_tests() -> dict[str, list[ComputationGraph]]:
    """Test graphs by setting: "500 nodes" and so on."""
    sizes = [int(nodes) for nodes in FLAGS.test_nodes]
    return {f"{n} nodes": layered_graphs(TEST_SEED, FLAGS.test_graphs, n) for n in sizes}


def train_layered(folder: Path, policy: OrderingConfig | None = None) -> Path:
    """A policy trained on layered graphs, new ones in every epoch (section 5.1)."""
    config, nodes = config_flags.read(OrderingTraining, FLAGS), FLAGS.train_nodes

    def epoch_graphs(epoch: int) -> list[ComputationGraph]:
        return layered_graphs(TRAINING_SEED + config.seed + epoch, config.epoch_graphs, nodes)

    validation = layered_graphs(VALIDATION_SEED, FLAGS.validation_graphs, nodes)
    return _train(folder, epoch_graphs, validation, policy, dataset=f"layered, {nodes} nodes")


def train_variants(folder: Path, known: Mapping[str, Mapping[str, Any]]) -> dict[str, Path]:
    """The policies of --variants, each trained in a folder of its own; ``known`` has by name what
    differs from the flags of OrderingConfig."""
    config, unknown = config_flags.read(OrderingConfig, FLAGS), {*FLAGS.variants} - {*known}
    if unknown:
        raise OptionError(f"variants: {', '.join(sorted(unknown))}: not of {', '.join(known)}")
    return {
        name: train_layered(folder / name, dataclasses.replace(config, **known[name]))
        for name in FLAGS.variants
    }


def real_graphs() -> dict[str, list[ComputationGraph]]:
    """The graphs of --dataset by split: train, valid and test (``model_zoo``, by family)."""
    graphs = load.model_zoo("all", folder=None if FLAGS.dataset == "model_zoo" else FLAGS.dataset)
    own = load.splits(graphs)
    return {
        split: [graph for graph, its in zip(graphs, own, strict=True) if its == split]
        for split in ("train", "valid", "test")
    }


def real_tests(graphs: Sequence[ComputationGraph]) -> dict[str, list[ComputationGraph]]:
    """Test graphs by setting: "200-500 nodes" and so on, those without any left out."""
    found = {
        f"{stratum} nodes": between(graphs, *_ends(stratum), FLAGS.test_graphs)
        for stratum in FLAGS.strata
    }
    if not any(found.values()):
        raise OptionError(f"strata {','.join(FLAGS.strata)}: no test graph is in any of them")
    return {setting: some for setting, some in found.items() if some}


def train_real(
    folder: Path, training: Sequence[ComputationGraph], validation: Sequence[ComputationGraph]
) -> Path:
    """A policy trained on real graphs whose best simple order isn't at its lower bound, and on
    copies of them with other sizes (REGAL, A.1)."""
    config, below = config_flags.read(OrderingTraining, FLAGS), FLAGS.train_ops + 1
    pool = corpora.variants(
        between(list(filter(_has_headroom, training)), 2, below, FLAGS.train_graphs),
        range(FLAGS.copies + 1),
        num_microbatches=1,
        max_ops=FLAGS.train_ops,
    )
    if not pool:
        raise OptionError(f"train_ops {FLAGS.train_ops}: no training graph is that small")
    held_out = between(list(filter(_has_headroom, validation)), 2, below, FLAGS.validation_graphs)
    return _train(folder, in_turns(pool, config), held_out, None, dataset=FLAGS.dataset)


def _has_headroom(graph: ComputationGraph) -> bool:
    """Whether a policy could learn anything from a graph of at most --train_ops ops."""
    if not 2 <= graph.num_ops <= FLAGS.train_ops:
        return False
    best = best_simple_schedule(graph, "peak_memory", Platform(1)).cost
    return best > PlacementProblem(graph, 1, "peak_memory").lower_bound


def between(
    graphs: Sequence[ComputationGraph], low: int, below: int, most: int
) -> list[ComputationGraph]:
    """At most ``most`` of the graphs with low <= ops < below, evenly spaced by size."""
    fitting = [graph for graph in graphs if low <= graph.num_ops < below]
    return corpora.evenly_by_size(fitting, most)


def in_turns(pool: Sequence[ComputationGraph], config: OrderingTraining) -> EpochGraphs:
    """Epochs of ``epoch_graphs`` graphs at random, none drawn again before all others were."""

    def epoch_graphs(epoch: int) -> list[ComputationGraph]:
        rng = np.random.default_rng((config.seed, TRAINING_SEED + epoch))
        turns = -(-config.epoch_graphs // len(pool))
        chosen = np.concatenate([rng.permutation(len(pool)) for _ in range(turns)])
        return [pool[index] for index in chosen[: config.epoch_graphs]]

    return epoch_graphs


def policies(train: Callable[[], Path], *, shipped: str) -> dict[str, Path]:
    """The policy to test: --policy, the one that is shipped under a name, or what ``train`` makes;
    none without topoformer among --methods."""
    if "topoformer" not in FLAGS.methods:
        return {}
    if FLAGS.policy is None:
        return {"topoformer": train()}
    if FLAGS.policy == "shipped":
        return {"topoformer": shipped_policy(shipped, "topoformer")}
    return {"topoformer": Path(FLAGS.policy)}


def runs(files: Mapping[str, Path]) -> list[Run]:
    """The rows of a table: --methods, then each policy, greedily, by samples, by beam search and
    guiding a dynamic programme (which autoregressive policies can't)."""
    found = [_baseline(method) for method in FLAGS.methods if method != "topoformer"]
    for name, file in files.items():
        config = checkpoints.load_policy(file, OrderingConfig)[1]
        found += _decoded(name, file, ("greedy", "sample", "beam"))
        found += _decoded(name, file, ("guided",)) if config.decoder == "nar" else []
    return found


def reference() -> str:
    """The label of approximate_dp, from whose peak memory gaps are measured."""
    if "approximate_dp" not in FLAGS.methods:
        raise OptionError("methods: gaps are from approximate_dp; name it, too")
    return _baseline("approximate_dp").label


def compare(
    graphs: Mapping[str, Sequence[ComputationGraph]], runs: Sequence[Run], folder: Path
) -> list[dict]:
    """Rows of ``searches.compare`` on one device, with --seeds for methods that are random.

    Seconds are those of ``optimize``: features and reading the policy count. Compilation doesn't,
    since a cheap search on the same graph comes first, except with a time limit.
    """
    rows: list[dict] = []
    random = [run for run in runs if run.method in RANDOM_METHODS]
    fixed = [run for run in runs if run.method not in RANDOM_METHODS]
    for some, seeds in ((fixed, 1), (random, FLAGS.seeds)):
        searches = seeds * len(some) * sum(map(len, graphs.values()))
        with progress.bar("searches", searches) as update:
            rows = comparison_searches.compare(
                graphs,
                some,
                seeds=seeds,
                path=folder / "results.csv",
                platform=comparison_searches.PlatformRule(num_devices=1),
                on_progress=lambda done, total: update(done),
            )
    return rows


def compare_variants(
    folder: Path, known: Mapping[str, Mapping[str, str]], paper: PaperTable
) -> None:
    """Trains the policies of --variants and prints their table for every size of layered graphs."""
    reference()
    measured, graphs = runs(train_variants(folder, known)), layered_tests()
    report(compare(graphs, measured, folder), list(graphs), measured, paper)


def report(
    rows: Sequence[dict], settings: Sequence[str], runs: Sequence[Run], paper: PaperTable
) -> dict[str, list[OrderingLine]]:
    """Prints a table for every setting; returns its lines."""
    lines = {}
    for setting in settings:
        labels = [run.label for run in runs]
        lines[setting] = topoformer_tables.summary(rows, setting, labels, reference())
        title = f"{setting}: gap of peak memory from {reference()}"
        print(topoformer_tables.text(title, lines[setting], paper.get(setting, {})) + "\n")
    return lines


def plot(lines: Mapping[str, Sequence[OrderingLine]], path: Path, title: str) -> None:
    """Draws figure 2 or 3, where matplotlib is there."""
    draw = plots.plot_gap_against_time
    figures.drawn(draw, lines, path, reference=reference(), title=title)


def _train(folder: Path, epoch_graphs: EpochGraphs, validation, policy, *, dataset: str) -> Path:
    config = config_flags.read(OrderingTraining, FLAGS)
    with progress.bar("training", config.epochs * config.steps_per_epoch) as update:
        return train_ordering(
            epoch_graphs,
            validation,
            policy=policy or config_flags.read(OrderingConfig, FLAGS),
            config=config,
            directory=folder,
            about={"objective": "peak_memory", "dataset": dataset},
            on_step=lambda step, metrics: update(step, f"cost {metrics['cost']:.3f}"),
        )


def _baseline(method: str) -> Run:
    """A method at its budget, with a cheap warm-up."""
    if method == "depth_first_dp":
        limit = FLAGS.dp_seconds
        return Run(f"{method} {limit:g}s", method, 1, options={"time_limit": limit})
    own = {"approximate_dp": FLAGS.dp_width, "random_orders": FLAGS.random_orders}
    evaluations = own.get(method, FLAGS.search_evaluations)
    label = regal_tables.label(method, evaluations)
    quick = method in own or label == method
    return Run(label, method, evaluations, warm_up=1 if quick else min(evaluations, WARM_UP))


def _decoded(name: str, file: Path, decodings: Sequence[Decoding]) -> list[Run]:
    found = []
    for decoding in decodings:
        own = {"greedy": 1, "guided": FLAGS.guided_width}
        count = own.get(decoding, FLAGS.test_samples)
        label = f"{name} {decoding}" + (f" {count}" if decoding != "greedy" else "")
        options = {"policy": file, "decoding": decoding}
        found.append(Run(label, "topoformer", count, options=options, warm_up=count))
    return found


def _ends(stratum: str) -> tuple[int, int]:
    low, _, below = stratum.partition("-")
    if not (low.isdecimal() and below.isdecimal()):
        raise OptionError(f"strata: {stratum!r} is not FROM-BELOW, such as 200-500")
    return int(low), int(below)
