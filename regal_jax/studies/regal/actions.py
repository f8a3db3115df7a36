"""REGAL's analysis of actions: policies for subsets of them (table 3), what these choose (5.1)."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Objective
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.placement import memory_by_op, pinned_op
from regal_jax.policies.regal import action_groups
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.reporting import progress, results, tables
from regal_jax.reporting.statistics import MeanInterval
from regal_jax.studies import keys
from regal_jax.studies.comparison import searches
from regal_jax.studies.comparison.searches import Run
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.regal import ablation_tables
from regal_jax.studies.regal.ablation_tables import ACTIONS, PAPER_TABLE_3
from regal_jax.training import checkpoints, settings
from regal_jax.training.regal_examples import feature_search

SUBSETS = tuple(PAPER_TABLE_3["valid"])
"""The rows of table 3."""

USAGE_COLUMNS = (KEY, "placement", "scheduling")
REFERENCE = "brkga"


def with_actions(config: RegalConfig, subset: str) -> RegalConfig:
    """The configuration with the actions of one of SUBSETS. OptionError for another one."""
    if subset not in SUBSETS:
        raise OptionError(f"{subset!r} is none of {', '.join(SUBSETS)}")
    parts = subset.split("+")
    placement, scheduling, elite_bias = (action in parts for action in ACTIONS)
    return dataclasses.replace(
        config, placement=placement, scheduling=scheduling, elite_bias=elite_bias
    )


def graph_sets(
    validation: Sequence[ComputationGraph],
    test: Mapping[str, Sequence[ComputationGraph]],
    xla: Sequence[ComputationGraph],
) -> dict[str, list[ComputationGraph]]:
    """The sets of table 3: valid, test without XLA graphs, and XLA; only sets that have graphs.

    ``test`` are the test graphs by setting; settings other than whole graphs are sets of their own.
    """
    sets = {"valid": list(validation)}
    for setting, graphs in test.items():
        name = "test" if setting == "as traced" else f"test, {setting}"
        sets[name] = [graph for graph in graphs if not graph.source.startswith("xla")]
    sets["XLA"] = list(xla)
    return {name: graphs for name, graphs in sets.items() if graphs}


def runs(policies: Mapping[str, Path], evaluations: int) -> list[tuple[Run, Path | None]]:
    """The searches of table 3, labelled by subset, each with its policy; BRKGA first."""
    reference = Run(REFERENCE, "brkga", evaluations)
    guided = [(Run(name, "regal_paper", evaluations), path) for name, path in policies.items()]
    return [(reference, None), *guided]


def improvements(
    rows: Sequence[dict], sets: Sequence[str], subsets: Sequence[str]
) -> dict[str, dict[str, MeanInterval]]:
    """Improvement over BRKGA in percent by subset and set, from rows of ``compare``."""
    found: dict[str, dict[str, MeanInterval]] = {subset: {} for subset in subsets}
    for name in sets:
        for line in searches.summary(rows, name, REFERENCE):
            if line.method in found:
                found[line.method][name] = line.improvement
    return found


def figure_7(
    graphs: Sequence[ComputationGraph], policy: Path, directory: Path, objective: Objective
) -> str:
    """How a policy's actions are used on graphs: figure 7 as a table."""
    params, config, _ = checkpoints.load_policy(policy, RegalConfig)
    path = directory / f"actions_{policy.stem}.csv"
    rows = measure_usage(graphs, params, config, objective=objective, path=path)
    groups = ablation_tables.usage_by_group(rows)
    return f"actions on {len(graphs)} graphs\n{tables.text_table(groups)}"


def measure_usage(
    graphs: Sequence[ComputationGraph],
    params: Any,
    config: RegalConfig,
    *,
    objective: Objective,
    path: Path,
) -> list[results.Row]:
    """Rows of these graphs for ``usage_by_group``; what the file at ``path`` holds already of this
    policy is not done again."""
    kept, rows = KeptRows(path, _LAST_METRIC, USAGE_COLUMNS), []
    policy = settings.arrays_fingerprint(params)
    for graph in progress.each("actions", graphs):
        key = keys.key(graph=graph, policy=policy, config=config, objective=objective)
        if key not in kept:
            actions = chosen_actions(graph, params, config, objective=objective)
            kept.add(key, usage_rows(graph, actions, config))
        rows += kept[key]
    return rows


def chosen_actions(
    graph: ComputationGraph,
    params: Any,
    config: RegalConfig,
    *,
    objective: Objective,
    seed: int = 0,
) -> np.ndarray:
    """int32[O, A]: the actions that the method regal_paper takes on a graph with this seed."""
    problem = PlacementProblem(graph, config.num_devices, objective)
    feature_key, _ = jax.random.split(jax.random.key(seed))
    inputs = feature_search(feature_key, problem, config, problem.operand, pinned_op(graph))[0]
    return np.asarray(_most_likely(params, inputs, config))[: graph.num_ops]


def usage_rows(
    graph: ComputationGraph, actions: np.ndarray, config: RegalConfig
) -> list[results.Row]:
    """For each group of actions, how many ops they are chosen for, and the sum of the relative
    memory of these: inputs and outputs in bytes, over the largest such sum in the graph."""
    placement = action_groups.placement_groups(actions, config.space)
    scheduling = action_groups.scheduling_groups(actions, config.space)
    memory = memory_by_op(graph)[:, :2].sum(axis=1)
    memory = memory / max(float(memory.max(initial=0.0)), 1.0)
    rows: list[results.Row] = []
    for i, placed in enumerate(action_groups.PLACEMENT):
        for j, scheduled in enumerate(action_groups.SCHEDULING):
            mine = (placement == i) & (scheduling == j)
            row = {"graph": graph.name, "method": "regal_paper", "seed": 0}
            row |= {"placement": placed, "scheduling": scheduled}
            rows.append(row | {"metric": "ops", "value": int(mine.sum())})
            rows.append(row | {"metric": _LAST_METRIC, "value": float(memory[mine].sum())})
    return rows


_LAST_METRIC = "relative memory"


@functools.partial(jax.jit, static_argnames="config")
def _most_likely(params, inputs, config: RegalConfig):
    return config.policy.mode(params, inputs)
