"""The pure-JAX cost, and BRKGA over it, compiled for accelerators: bytes and estimated time."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from regal_jax.compiler.accelerators.accelerator import Accelerator, accelerator
from regal_jax.compiler.accelerators.measure import compile_for, measured, placed
from regal_jax.compiler.accelerators.module_costs import module_costs
from regal_jax.datasets.zoo import load
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.xla.module import bodies
from regal_jax.graphs.importers.xla.text import Module, parse_module
from regal_jax.graphs.importers.xla.trips import trip_count
from regal_jax.reporting import progress
from regal_jax.reporting.results import Row
from regal_jax.reporting.tables import human_bytes
from regal_jax.search.evolution import brkga
from regal_jax.studies import keys
from regal_jax.studies.flags import option
from regal_jax.studies.kept import KEY, KeptRows
from regal_jax.studies.settings import Output

EXTRA_COLUMNS = (KEY, "accelerator", "jax", "batch", "ops")
PROGRAMS = ("cost", "brkga")
"""The cost of a batch, and a generation of BRKGA that evaluates as many."""

_LAST_METRIC = "seconds"


@dataclass(frozen=True, kw_only=True)
class Settings(Output):
    """What is compiled, for what."""

    accelerators: tuple[str, ...] = option(("h100", "v5e"), "Which to compile for.")
    sizes: tuple[int, ...] = option((30,), "Ops; the zoo's test graph nearest to each.")
    batch: int = option(10_000, "Chromosomes evaluated at once.")
    num_devices: int = option(2, "That the graph is placed on.")


def measure(settings: Settings, path: Path) -> list[Row]:
    """Rows of every accelerator, graph and program, appended to ``path``; those that are there are
    not made again.

    Raises OptionError for no such accelerator, CompilerError where its compiler is missing.
    """
    kept, rows = KeptRows(path, _LAST_METRIC, EXTRA_COLUMNS), []
    targets = [accelerator(name) for name in settings.accelerators]
    graphs = [_nearest(size) for size in settings.sizes]
    cases = [(t, graph, name) for t in targets for graph in graphs for name in PROGRAMS]
    for target, graph, name in progress.each("programs", cases):
        problem = PlacementProblem(graph, settings.num_devices, backend="jax")
        lowered = _lowered(problem, name, settings.batch, target)
        key = keys.key(
            program=lowered.as_text(), graph=graph, accelerator=target.name, jax=jax.__version__
        )
        make = functools.partial(_rows, lowered, problem, name, settings.batch, target)
        rows += kept.rows(key, make)
    return rows


def table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """A line a program: bytes of all, and bytes and estimated time of an evaluation."""
    lines = []
    for key in dict.fromkeys(row[KEY] for row in rows):
        own = [row for row in rows if row[KEY] == key]
        of = {row["metric"]: float(row["value"]) for row in own}
        batch = int(own[0]["batch"])
        lines.append(
            {
                "compiled for": own[0]["accelerator"],
                "graph": f"`{own[0]['graph']}`",
                "ops": str(own[0]["ops"]),
                "program": own[0]["method"],
                "batch": f"{batch:,}",
                "memory": human_bytes(of["peak_bytes"]),
                "an evaluation": human_bytes(of["peak_bytes"] / batch),
                "rounds": f"{of['rounds']:,.0f}",
                "us an evaluation, estimate": f"{1e6 * of['seconds'] / batch:.3g}",
            }
        )
    return lines


def _nearest(num_ops: int) -> ComputationGraph:
    return min(load.model_zoo("test"), key=lambda graph: abs(graph.num_ops - num_ops))


def _lowered(problem: PlacementProblem, name: str, batch: int, target: Accelerator) -> Any:
    spec = problem.spec
    genes = jax.ShapeDtypeStruct((batch, spec.num_genes), jnp.float32)
    if name == "cost":
        args, _ = placed(target, (problem.operand, genes), {})
        return jax.jit(spec.costs).lower(*args)
    config = brkga.BRKGAConfig(
        population=batch + batch // 9, elites=batch // 9, children=batch * 8 // 9
    )

    def generation(key, operand, state):
        cost = functools.partial(spec.costs, operand)
        mutants = brkga.uniform_mutants(spec.num_genes)
        bias = config.elite_bias
        return brkga.step(key, state, cost, mutants, elite_bias=bias, config=config)

    population = brkga.BRKGAState(
        chromosomes=jax.ShapeDtypeStruct((config.population, spec.num_genes), jnp.float32),
        costs=jax.ShapeDtypeStruct((config.population,), jnp.float32),
    )
    args, _ = placed(target, (jax.random.key(0), problem.operand, population), {})
    return jax.jit(generation).lower(*args)


def _rows(
    lowered: Any, problem: PlacementProblem, name: str, batch: int, target: Accelerator
) -> list[Row]:
    compiled = compile_for(lowered, target)
    needs, rounds = measured(compiled, target), most_steps(problem.graph, problem.num_devices)
    a_round = _seconds_of_loops(parse_module(compiled.as_text()), target)
    common = {"graph": problem.graph.name, "method": name, "seed": 0, "jax": jax.__version__}
    common |= {"accelerator": target.name, "batch": batch, "ops": problem.graph.num_ops}
    values = {
        "peak_bytes": float(needs.peak),
        "temp_bytes": float(needs.temporaries),
        "kernels": float(needs.kernels),
        "rounds": float(rounds),
        "round_seconds": a_round,
        "seconds": needs.seconds + (rounds - 1) * a_round,
    }
    return [common | {"metric": metric, "value": value} for metric, value in values.items()]


def most_steps(graph: ComputationGraph, num_devices: int) -> int:
    """Steps of the longest schedule: all ops, and all transfers that there can be."""
    made = graph.producer >= 0
    copies = [
        min(num_devices - 1, len(set(graph.consumers.row(t)))) for t in made.nonzero()[0].tolist()
    ]
    return graph.num_ops + sum(copies)


def _seconds_of_loops(module: Module, target: Accelerator) -> float:
    """Estimated time of one round of the loops whose number of rounds isn't known."""
    entry = module.computations[module.entry]
    inner = [
        body
        for one in entry.instructions.values()
        if one.opcode == "while" and trip_count(module, entry, one) is None
        for body in bodies(one)
    ]
    of = target.specification
    return sum(module_costs(replace(module, entry=body), of).seconds for body in inner)
