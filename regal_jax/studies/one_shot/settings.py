"""What experiments with one-shot priority sampling are told; dataclasses of flags."""

from dataclasses import dataclass
from typing import Literal

from regal_jax.methods.one_shot import GENETIC_EVALUATIONS
from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.studies.flags import group, option
from regal_jax.studies.settings import Executor, GivenPolicy, Output
from regal_jax.training.one_shot import OneShotTraining

LEARNED = "one_shot"
METHODS = (
    *(LEARNED, "noisy_rule", "critical_path", "mopnr", "spt"),
    *("random_search", "brkga", "justification", "cp_sat", "auto"),
)


@dataclass(frozen=True, kw_only=True)
class Graphs:
    """Which graphs, by their names in ``machine_corpora``, and how many there are at most of each
    setting; the paper has no more than that."""

    settings: tuple[str, ...] = option((), "Test graphs, such as 'job_shop 25x10'.")
    data_dir: str | None = option(None, "Folder of the files of TPC-H.")
    test_graphs: int = option(300, "Most test graphs of a setting.")
    train_graphs: int = option(3000, "Most of the paper's training graphs of a setting.")


@dataclass(frozen=True, kw_only=True)
class Training(Graphs):
    """How policies are made."""

    train_instances: Literal["paper", "fresh"] = option(
        "paper",
        "The paper's graphs, a policy a setting; or new ones in each epoch, one policy for all.",
    )
    train_settings: tuple[str, ...] = option((), "Settings of fresh graphs; those of the tests.")
    epoch_graphs: int = option(300, "Fresh graphs of an epoch.")
    validation_graphs: int = option(30, "Validation graphs, always fresh ones.")
    train_seeds: int = option(1, "Trainings, of which the best in validation is tested.")
    one_shot: OneShotConfig = group(OneShotConfig())
    training: OneShotTraining = group(OneShotTraining())


@dataclass(frozen=True, kw_only=True)
class Comparison(Executor):
    """What to run, and its budgets (section 5, appendices D and G)."""

    methods: tuple[str, ...] = option(METHODS, "What to run, 'NAME' or 'NAME GENERATION'.")
    test_samples: tuple[int, ...] = option((16, 64, 256), "Rankings sampled by a policy, S(N).")
    random_samples: int = option(256, "Priorities of random_search.")
    search_evaluations: int = option(5000, "Budget of brkga and justification.")
    cp_seconds: float = option(60.0, "Time limit of cp_sat.")
    seeds: int = option(1, "Seeds of the methods that are random.")


@dataclass(frozen=True, kw_only=True)
class Genetic(Comparison):
    """The budget of appendix G, too."""

    genetic_evaluations: int = option(GENETIC_EVALUATIONS, "Schedules of a genetic search.")


@dataclass(frozen=True, kw_only=True)
class Settings(Output, GivenPolicy, Comparison, Training):
    """Policies against other methods."""
