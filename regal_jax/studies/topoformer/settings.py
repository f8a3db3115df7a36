"""What Topoformer's experiments are told: graphs, policies, what to run; dataclasses of flags."""

from dataclasses import dataclass

from regal_jax.policies.topological_order.policy import OrderingConfig
from regal_jax.studies.flags import group, option
from regal_jax.studies.settings import Executor, GivenPolicy, Output
from regal_jax.training.topological_order import OrderingTraining

RANDOM_METHODS = ("topoformer", "next_op", "lookahead", "random_orders")
"""Those that --seeds is about; the others are run once."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """How policies are made."""

    validation_graphs: int = option(100, "Most validation graphs.")
    ordering: OrderingConfig = group(OrderingConfig())
    training: OrderingTraining = group(OrderingTraining())


@dataclass(frozen=True, kw_only=True)
class Comparison(Executor):
    """What to run, and its budgets (section 5, C.3)."""

    methods: tuple[str, ...] = option(
        ("approximate_dp",), "What to run, approximate_dp among them."
    )
    test_samples: int = option(16, "Orders sampled by a policy, and its beam width.")
    dp_width: int = option(100_000, "K of approximate_dp.")
    guided_width: int = option(1000, "Width of the dynamic programme a policy guides.")
    dp_seconds: float = option(3600.0, "Time limit of depth_first_dp.")
    random_orders: int = option(100, "Orders of random_orders.")
    search_evaluations: int = option(1_000_000, "Budget of searches, such as auto.")
    seeds: int = option(1, f"Seeds of {' and '.join(RANDOM_METHODS)}.")


@dataclass(frozen=True, kw_only=True)
class LayeredGraphs:
    """Layered graphs to train and test on."""

    train_nodes: int = option(500, "Ops of a training graph.")
    test_nodes: tuple[int, ...] = option((500, 1000), "Ops of the test graphs.")
    test_graphs: int = option(300, "Test graphs of each size.")


@dataclass(frozen=True, kw_only=True)
class RealGraphs:
    """Real graphs to train and test on."""

    dataset: str = option("model_zoo", "model_zoo, or a folder of graph files.")
    train_ops: int = option(1000, "Most ops of a training or validation graph.")
    train_graphs: int = option(10_000, "Most training graphs, evenly over sizes.")
    copies: int = option(0, "Training graphs with other sizes, of each graph.")
    microbatches: tuple[int, ...] = option(
        (1,), "Steps over so many, to train on and to test; 1: as traced.", least=1
    )
    strata: tuple[str, ...] = option(
        ("200-500", "500-700", "700-1000", "1000-10000"), "Ops of the test graphs, FROM-BELOW."
    )
    test_graphs: int = option(100, "Most test graphs of a stratum, evenly over sizes.")


@dataclass(frozen=True, kw_only=True)
class Layered(Output, LayeredGraphs, Comparison, Training):
    """Policies for layered graphs."""


@dataclass(frozen=True, kw_only=True)
class OneLayered(Layered, GivenPolicy):
    """One policy for layered graphs against other methods."""


@dataclass(frozen=True, kw_only=True)
class Variants(Layered):
    """Policies for layered graphs that are compared with each other."""

    variants: tuple[str, ...] = option((), "Rows of the table.")


@dataclass(frozen=True, kw_only=True)
class Real(Output, RealGraphs, Comparison, Training, GivenPolicy):
    """A policy for real graphs against other methods."""
