"""How near GFlowNets are to the distribution that they are trained for, by temperature (ours;
gflownet_robust_scheduling has no such table).

Metrics, each with the temperature behind its name: ``total_variation`` [%] between the policy's
schedules and the reward's distribution, exact, of graphs whose schedules can be listed;
``effective_samples`` [% of the trajectories drawn], by their weights, reward times backward over
forward probability; ``flow`` and ``reward`` [nats], the standard deviations of the weights'
logarithm (zeta of eq. 7) and of the reward's, over the same trajectories.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax import registry
from regal_jax.datasets.makespan_graphs import makespan_graphs
from regal_jax.environments.construction import enumeration
from regal_jax.environments.construction.enumeration import Level
from regal_jax.environments.platform import Platform
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.options import check_temperature
from regal_jax.policies.gflownet import exact, rollout, sampling
from regal_jax.policies.gflownet.policy import FlowConfig, FlowInputs, padded_inputs
from regal_jax.reporting import progress, tables
from regal_jax.studies import keys
from regal_jax.studies.comparison.candidates import Row
from regal_jax.studies.corpus import Corpus
from regal_jax.studies.flags import option
from regal_jax.studies.gflownet.settings import Training
from regal_jax.studies.gflownet.tables import Line, over_graphs, paired
from regal_jax.studies.gflownet.training import train
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.settings import policy_file
from regal_jax.training import checkpoints, flow, flow_objectives
from regal_jax.training.flow_objectives import Flows

SMALL, REAL = "small graphs", "real graphs"
TRAINED, UNTRAINED = "gflownet", "untrained"
HEADINGS = MappingProxyType(
    {"total_variation": "total variation [%]", "effective_samples": "effective samples [%]"}
)
COLUMNS = (KEY, "setting", "ops")


class Asked(NamedTuple):
    """A policy to look at: what it is called, and its file, or None for the parameters that the
    training of a configuration begins with."""

    method: str
    seed: int
    policy: FlowConfig
    file: Path | None


@dataclass(frozen=True, kw_only=True)
class Settings(Training):
    """Which graphs, at which temperatures."""

    policy: str = option("shipped", "Policy file for real graphs, or 'shipped'.")
    temperatures: tuple[float, ...] = option((1.0, 0.3, 0.1, 0.05, 0.02, 0.01), "Of the reward.")
    samples: int = option(1000, "Trajectories that are drawn of each graph.")
    train_graphs: int = option(400, "Small random graphs to train on.")
    test_graphs: int = option(20, "Unseen ones, in turns of five families.")
    graph_ops: int = option(7, "Ops of each of these.")
    real_graphs: int = option(16, "Real test graphs, evenly over sizes; may be 0.")


def random_graphs(settings: Settings) -> Corpus[Sequence[ComputationGraph]]:
    """Small ones, to train on and to test on."""
    counts = (("train", settings.train_graphs), ("test", settings.test_graphs))
    training, test = (list(makespan_graphs(*c, settings.graph_ops)) for c in counts)
    return Corpus("small random graphs", training, test)


def check(graphs: Sequence[ComputationGraph], settings: Settings) -> None:
    """Raises OptionError, before hours of training, for temperatures that aren't positive and for
    graphs whose schedules can't be listed."""
    if not settings.temperatures:
        raise OptionError("temperatures: give at least one")
    for temperature in settings.temperatures:
        check_temperature(temperature)
    for graph in graphs:
        _levels(graph, SMALL, settings)


def small_policies(
    corpus: Corpus[Sequence[ComputationGraph]], folder: Path, settings: Settings
) -> list[Asked]:
    """One that is trained for each of --seeds, and what they begin with."""
    policy, found = settings.flow, [Asked(UNTRAINED, 0, settings.flow, None)]
    for seed in range(settings.seeds):
        file = train(TRAINED, corpus, folder, policy, settings.training, seed)
        found.append(Asked(TRAINED, seed, policy, file))
    return found


def real_policies(settings: Settings) -> list[Asked]:
    """That of --policy, and what its training began with."""
    file = policy_file(settings.policy) or shipped_policy("makespan", TRAINED)
    _, policy, _ = checkpoints.load_policy(file, FlowConfig)
    return [Asked(UNTRAINED, 0, policy, None), Asked(TRAINED, 0, policy, file)]


def compare(
    setting: str,
    graphs: Sequence[ComputationGraph],
    policies: Sequence[Asked],
    folder: Path,
    settings: Settings,
) -> list[Row]:
    """Rows of policies on each graph; those of ``results.csv`` aren't made again."""
    rows, done = list[Row](), itertools.count(1)
    kept = KeptRows(folder / "results.csv", _metric("reward", settings.temperatures[-1]), COLUMNS)
    with progress.bar(setting, len(graphs) * len(policies)) as update:
        for graph in graphs:
            levels = functools.cache(functools.partial(_levels, graph, setting, settings))
            for asked in policies:
                key = _key(graph, asked, setting, settings)
                rows += kept.rows(
                    key, functools.partial(_rows, graph, asked, setting, levels, settings)
                )
                update(next(done), graph.name)
    return rows


def measure(
    params,
    inputs: FlowInputs,
    levels: Sequence[Level] | None,
    policy: FlowConfig,
    settings: Settings,
) -> dict[str, float]:
    """The metrics of a graph at each temperature; without levels no ``total_variation``."""
    found: dict[str, float] = {}
    for temperature in settings.temperatures:
        values = _sampled(params, inputs, temperature, policy, settings)
        if levels is not None:
            values = _exact(params, inputs, levels, temperature, policy, settings) | values
        found |= {_metric(name, temperature): value for name, value in values.items()}
    return found


def page(rows: Sequence[Row]) -> str:
    """A table a setting: a line a metric and method, and what training changed, paired by graph; a
    column a temperature; in Markdown."""
    parts = []
    for setting in dict.fromkeys(row["setting"] for row in rows):
        some = [row for row in rows if row["setting"] == setting]
        graphs, seeds = ({row[column] for row in some} for column in ("graph", "seed"))
        counts = tables.number_of(len(graphs), "graph"), tables.number_of(len(seeds), "training")
        lines = over_graphs(some, setting)
        table = [row for name in HEADINGS for row in _means(lines, some, setting, name)]
        parts.append(f"{setting.capitalize()}: {', '.join(counts)}.")
        parts.append(tables.markdown_table(table + _ratios(lines)))
    return "\n\n".join(parts) + "\n"


def _means(
    lines: Sequence[Line], rows: Sequence[Row], setting: str, name: str
) -> list[dict[str, str]]:
    """Those of a metric; none where there are no rows of it."""
    metrics = [metric for metric in lines[0].cells if metric.startswith(name)]
    cells = {
        line.method: {_at(metric): line.cells[metric].text(".1f") for metric in metrics}
        for line in lines
    }
    changes = paired(rows, setting, TRAINED, metrics)
    cells["change"] = {_at(line.metric): line.difference.text("+.1f") for line in changes}
    heading = HEADINGS[name]
    return [{"": heading, "method": method} | own for method, own in cells.items() if own]


def _ratios(lines: Sequence[Line]) -> list[dict[str, str]]:
    """Of the mean deviations; NaN where all schedules drawn are as good."""
    table = []
    for line in lines:
        mean = {metric: cell[0] for metric, cell in line.cells.items()}
        flows = [metric for metric in mean if metric.startswith("flow")]
        ratios = {m: mean[m] / (mean[m.replace("flow", "reward")] or math.nan) for m in flows}
        cells = {_at(metric): f"{ratio:.2f}" for metric, ratio in ratios.items()}
        table.append({"": "deviation over the reward's", "method": line.method} | cells)
    return table


def _at(metric: str) -> str:
    """The temperature behind a metric's name."""
    return metric.split(" ")[1]


def _key(graph: ComputationGraph, asked: Asked, setting: str, settings: Settings) -> str:
    return keys.key(
        graph=graph,
        setting=setting,
        policy=asked.file or asked.policy,
        seed=asked.seed,
        temperatures=settings.temperatures,
        samples=settings.samples,
        num_devices=settings.num_devices,
    )


def _rows(graph, asked: Asked, setting: str, levels, settings: Settings) -> list[Row]:
    inputs = padded_inputs(graph, Platform(settings.num_devices), asked.policy)
    if asked.file is None:
        made = registry.make_policy(asked.policy)
        params = made.init(jax.random.key(asked.seed), inputs, settings.num_devices)
    else:
        params, *_ = checkpoints.load_policy(asked.file, FlowConfig)
    about = {"graph": graph.name, "method": asked.method, "seed": asked.seed, "setting": setting}
    about["ops"] = graph.num_ops
    found = measure(params, inputs, levels(), asked.policy, settings)
    return [about | {"metric": metric, "value": value} for metric, value in found.items()]


def _levels(graph, setting: str, settings: Settings) -> list[Level] | None:
    """Of all schedules of a small graph, which are taken as the policies take them."""
    if setting != SMALL:
        return None
    problem = padded_inputs(graph, Platform(settings.num_devices), settings.flow).problem
    return enumeration.levels(problem, settings.num_devices, symmetric=settings.flow.symmetric)


def _metric(name: str, temperature: float) -> str:
    return f"{name} {temperature:g}"


def _exact(params, inputs, levels, temperature, policy, settings) -> dict[str, float]:
    log_p = exact.log_probabilities(params, inputs, np.log(temperature), levels, policy=policy)
    speedup = flow.speedups(inputs, exact.makespans(inputs.problem, levels))
    reward = flow_objectives.log_reward(speedup, settings.num_devices, temperature)
    wanted = exact.boltzmann(np.asarray(reward))
    return {"total_variation": 100 * exact.total_variation(np.exp(log_p), wanted)}


def _sampled(params, inputs, temperature, policy, settings) -> dict[str, float]:
    devices = settings.num_devices
    drawn = sampling.draw(
        *(jax.random.key(0), params, inputs, temperature),
        policy=policy,
        num_devices=devices,
        count=settings.samples,
    )
    speedup = flow.speedups(inputs, drawn.makespan)
    reward = flow_objectives.log_reward(speedup, devices, temperature)
    log_temperature = jnp.log(jnp.float32(temperature))
    found = _implied(params, inputs, log_temperature, drawn, reward, policy, devices)
    zeta = np.asarray(found, np.float64)
    weights = np.exp(zeta - zeta.max())
    effective = weights.sum() ** 2 / (weights**2).sum() / len(weights)
    spread = float(np.asarray(reward, np.float64).std())
    return {
        "effective_samples": 100 * float(effective),
        "flow": float(zeta.std()),
        "reward": spread,
    }


@functools.partial(jax.jit, static_argnames=("policy", "num_devices"))
def _implied(params, inputs, log_temperature, drawn, reward, policy, num_devices):
    """float[N]: the weights' logarithm, of drawn trajectories."""
    found = rollout.likelihood(
        *(registry.make_policy(policy), params, inputs, log_temperature, drawn.op, drawn.device),
        num_devices=num_devices,
    )
    flows = Flows(found.forward, found.backward, reward, jnp.float32(0.0))
    return flow_objectives.implied_log_partition(flows)
