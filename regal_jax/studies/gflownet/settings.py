"""What experiments with GFlowNets are told; dataclasses of flags."""

from dataclasses import dataclass

from regal_jax.policies.gflownet.policy import FlowConfig
from regal_jax.studies.flags import group, option
from regal_jax.studies.settings import Executor, Output
from regal_jax.training.gflownet import FlowTraining
from regal_jax.training.ppo import PPOTraining

METHODS = (
    *("critical_path", "brkga", "random_search"),
    *("list_sampling", "price_sweep", "one_shot", "ppo", "gflownet"),
)
TARGETS = ("noisy", "bandwidth", "latency")

PPO = "ppo_"
"""How the names of PPO's own flags begin."""

SHARED = (
    *("num_devices", "clip_norm", "min_subgraph", "max_subgraph"),
    *("validation_samples", "validation_top", "seed"),
)
"""What PPO is trained with as GFlowNets are."""


@dataclass(frozen=True, kw_only=True)
class Training(Output):
    """How GFlowNets are trained, and how often."""

    seeds: int = option(1, "Seeds of all that is random.")
    flow: FlowConfig = group(FlowConfig(), shared=("num_devices",))
    training: FlowTraining = group(FlowTraining())

    @property
    def num_devices(self) -> int:
        """Of training, networks and comparisons."""
        return self.training.num_devices


@dataclass(frozen=True, kw_only=True)
class Policies(Training):
    """Where the policies come from; by default they are trained."""

    policy: str | None = option(None, "Policy file of gflownet, or 'shipped'; else one is trained.")
    ppo_policy: str | None = option(None, "Policy file of ppo, or 'shipped'; else one is trained.")
    retrain: bool = option(False, "Each of --seeds has policies trained with it.")
    ppo: PPOTraining = group(PPOTraining(), prefix=PPO, shared=SHARED)


@dataclass(frozen=True, kw_only=True)
class Comparison(Policies, Executor):
    """What to run, its budgets (section 5), and what its schedules are tried on."""

    methods: tuple[str, ...] = option(
        METHODS,
        "What to run; a number behind a method, as in 'brkga 50000', is its own budget; with"
        " 'trials' behind it candidates are tried one by one, each chosen by those before.",
    )
    samples: int = option(1000, "Schedules drawn by samplers that don't search.")
    evaluations: int = option(5000, "Evaluations of those that do, such as brkga.")
    candidates: int = option(100, "Best schedules of each, to be tried on the targets.")
    targets: tuple[str, ...] = option(TARGETS, "Target models: names of shipped ones, or files.")
    noise_draws: int = option(1, "Of each target with noisy durations.")
