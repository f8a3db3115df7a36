"""MachineProblem: when each op of a graph runs on its machine, as a function of chromosomes."""

import functools
import heapq
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax import registry
from regal_jax.environments.base import has_machines
from regal_jax.environments.placement import chromosome as placement_chromosome
from regal_jax.environments.placement.cost import Backend, default_backend
from regal_jax.environments.rcpsp import batch, ffi, kernel, list_scheduler
from regal_jax.environments.rcpsp.bounds import makespan_bound
from regal_jax.environments.rcpsp.columns import MachineColumns, machine_columns
from regal_jax.environments.schedule import Generation, Objective, Schedule
from regal_jax.errors import GraphError, OptionError
from regal_jax.graphs import precedence
from regal_jax.graphs.batching import padded_size
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.transforms import reverse

GENERATIONS: dict[Generation, int] = {
    "parallel": kernel.PARALLEL,
    "serial": kernel.SERIAL,
}
"""Those of compiled kernels; "backwards" is made of both."""


class MachineSpec(NamedTuple):
    """Everything but the graph that a makespan depends on; hashable.

    Attributes:
      generation: see ``MachineProblem``.
      num_genes: with padding.
      scratch_words: of the compiled kernel.
      backend: which implementation.
    """

    generation: Generation
    num_genes: int
    scratch_words: int
    backend: Backend

    def costs(self, operand: Any, chromosomes: jax.Array) -> jax.Array:
        """float[B]: makespans, us, of padded chromosomes float32[B, num_genes]."""
        if self.backend == "jax":
            return jax.vmap(lambda genes: list_scheduler.makespan(operand, genes))(chromosomes)
        number = GENERATIONS[self.generation]
        return ffi.makespans(operand, chromosomes, number, scratch_words=self.scratch_words)


class MachineProblem:
    """When each op of a graph runs, on machines of limited capacity, for the least makespan.

    An op occupies ``demand`` units of its machine type, without a break, for its duration; it waits
    for the producers of all tensors it reads, whose sizes don't matter. (One-shot priority
    sampling, section 2.2; without precedence between types and with demands of 1, a job shop.)

    Genes are priorities float32[O], higher first, ties to the lower op index, and a *generation*
    makes a schedule of them:

    - "parallel" (the paper's list scheduling; no unit idles while a ready op fits): at each
      decision time, from 0 on, the ready ops are considered in decreasing priority, and each that
      fits its type's free units starts; one that doesn't fit doesn't block those behind it. The
      next decision time is the next finish time. All ops that end then are released before
      anything starts. An op of no duration holds its units until then, too, and the next decision
      time is the same time again: what it makes ready is considered there.
    - "serial" (Kolisch 1996; active schedules, one of which is optimal): op by op, the one of
      highest priority of those whose producers are all scheduled, each at the earliest time, not
      before its producers end, at which its units are free for all its duration (at once if that
      is 0).
    - "backwards" (ours): parallel generation of the graph turned round, whose ops the priorities
      rank; then serial generation in the order of that schedule, which is read from its end. One
      evaluation, though two schedules are generated. Not inside jit.

    Times are float64 and compared exactly: integers stay exact up to 2**53.

    Args:
      graph: a graph with ``capacity``.
      generation: see above.
      backend: "native" (compiled, CPU) or "jax" (pure JAX, any device; "parallel" only), inside
        jit; by default what suits JAX's default device.

    Raises:
      OptionError: for a graph without capacity, an unknown generation, or one that the backend
        doesn't have. GraphError: for a graph without ops, or an op whose demand exceeds its
        type's capacity.
    """

    objective: Objective = "makespan"

    def __init__(
        self,
        graph: ComputationGraph,
        *,
        generation: Generation = "parallel",
        backend: Backend | None = None,
    ):
        if generation not in get_args(Generation):
            names = ", ".join(get_args(Generation))
            raise OptionError(f"generation must be one of {names}, got {generation!r}")
        _check(graph)
        self.graph = graph
        self.generation: Generation = generation
        self.backend = backend or ("native" if generation != "parallel" else default_backend())
        if self.backend == "jax" and generation != "parallel":
            raise OptionError(f"backend 'jax' has parallel generation only, not {generation}")

    def generated(self, generation: Generation) -> "MachineProblem":
        """The same problem by a generation; the bound that is known of it goes along."""
        other = MachineProblem(self.graph, generation=generation)
        other.lower_bound = self.lower_bound
        return other

    @functools.cached_property
    def ranked_graph(self) -> ComputationGraph:
        """The graph whose ops the genes rank: turned round if generation is "backwards"."""
        return reverse(self.graph) if self.generation == "backwards" else self.graph

    @property
    def num_ops(self) -> int:
        return self.graph.num_ops

    @property
    def capacity(self) -> np.ndarray:
        """int64[M]: units of each machine type."""
        assert self.graph.capacity is not None
        return self.graph.capacity

    @property
    def num_types(self) -> int:
        return len(self.capacity)

    @property
    def num_genes(self) -> int:
        """Genes of a chromosome: a priority an op."""
        return self.num_ops

    @functools.cached_property
    def lower_bound(self) -> float:
        """A makespan no schedule can beat."""
        return makespan_bound(self.graph)

    def makespans(self, chromosomes) -> np.ndarray:
        """float64[B]: exact makespans of chromosomes float32[B, genes], on all cores.

        Raises OptionError for a wrong shape or a value that is not a number.
        """
        return self._evaluate(self._checked(chromosomes))[0]

    def starts(self, chromosomes) -> np.ndarray:
        """float64[B, O]: the start times of the schedules of chromosomes. Raises OptionError."""
        return self._evaluate(self._checked(chromosomes), with_starts=True)[1]

    def fitness(self, chromosomes):
        """float[B]: ``makespans``; inside jit a traced float32 array (genes not checked).

        Raises OptionError.
        """
        if not isinstance(chromosomes, jax.core.Tracer):
            return self.makespans(chromosomes)
        placement_chromosome.check_shape(chromosomes.shape, self.num_genes)
        return self.spec.costs(self.operand, self.pad(chromosomes.astype(np.float32)))

    @property
    def spec(self) -> MachineSpec:
        """The makespan of chromosomes padded to a ladder of sizes. OptionError for a generation
        that has no kernel."""
        if self.generation not in GENERATIONS:
            names = " or ".join(GENERATIONS)
            raise OptionError(f"this search takes generation {names}, not {self.generation}")
        words = padded_size(batch.scratch_words(self._columns))
        return MachineSpec(self.generation, self._length, words, self.backend)

    @functools.cached_property
    def operand(self) -> Any:
        """The graph, padded, what ``spec.costs`` reads: one packed int32 buffer, or arrays."""
        if self.backend == "jax":
            pairs = padded_size(len(self.graph.op_pairs))
            return list_scheduler.machine_arrays(
                self.graph, self._length, pairs, padded_size(self.num_types)
            )
        return np.pad(self._packed, (0, padded_size(len(self._packed)) - len(self._packed)))

    def pad(self, chromosomes):
        """Chromosomes in the layout of ``spec.costs``: behind them genes that don't count."""
        numpy = jnp if isinstance(chromosomes, jax.Array) else np
        return numpy.pad(chromosomes, ((0, 0), (0, self._length - self.num_ops)))

    def unpad(self, chromosomes: np.ndarray) -> np.ndarray:
        """The reverse of ``pad``."""
        return chromosomes[:, : self.num_ops]

    @property
    def _length(self) -> int:
        return padded_size(self.num_ops)

    def decode(self, chromosome, **attributes) -> Schedule:
        """The schedule of one chromosome float32[genes], with its exact makespan.

        Steps are the ops by start time, ties by index but never before a producer. Keyword
        arguments (method, seed, ...) are attributes of the Schedule. Raises OptionError.
        """
        return self.scheduled(self.starts(np.asarray(chromosome)[None])[0], **attributes)

    def scheduled(self, start: np.ndarray, **attributes) -> Schedule:
        """The schedule of valid start times float64[O], us; otherwise like ``decode``."""
        schedule = Schedule(
            graph=self.graph.name,
            objective="makespan",
            num_devices=self.num_types,
            placement=self.graph.machine_type,
            steps=self._steps(start),
            start=start,
            makespan=float(np.max(start + self.graph.duration)),
            lower_bound=self.lower_bound,
        )
        return schedule.replace(**attributes)

    def encode(self, schedule: Schedule) -> np.ndarray:
        """float32[genes]: a chromosome that puts the ops in the schedule's order of starts.

        It decodes to a schedule that is no longer, if generation is "serial"; and to the same
        schedule if that came from parallel generation and no op has duration 0. Priorities are in
        (0, 1): ops by start, then end, then (at one moment) after producers; the other way round
        if generation is "backwards".
        """
        start = schedule.start
        assert start is not None
        levels = precedence.levels(self.graph)
        order = np.lexsort((np.arange(self.num_ops), levels, start + self.graph.duration, start))
        if self.generation == "backwards":
            order = order[::-1]
        priority = np.empty(self.num_ops, np.float32)
        priority[order] = 1.0 - (np.arange(self.num_ops) + 0.5) / self.num_ops
        return priority

    def _steps(self, start: np.ndarray) -> np.ndarray:
        """int64[O]: by start; an op of no duration and what waits for it may start together."""
        pairs = self.graph.op_pairs
        if np.all(start[pairs[:, 0]] < start[pairs[:, 1]]):
            return np.argsort(start, kind="stable")
        offsets, missing = self._columns.successor_offsets, self._columns.num_dependencies.copy()
        heap = [(start[op], op) for op in np.flatnonzero(missing == 0).tolist()]
        heapq.heapify(heap)
        order = []
        while heap:
            _, op = heapq.heappop(heap)
            order.append(op)
            for successor in self._columns.successors[offsets[op] : offsets[op + 1]].tolist():
                missing[successor] -= 1
                if missing[successor] == 0:
                    heapq.heappush(heap, (start[successor], successor))
        return np.array(order, np.int64)

    @functools.cached_property
    def _turned(self) -> "MachineProblem":
        """What "backwards" begins with."""
        return MachineProblem(self.ranked_graph, backend="native")

    @functools.cached_property
    def _packed(self) -> np.ndarray:
        """int32[P]: the graph without padding, in one buffer."""
        return batch.pack(self._columns)

    @functools.cached_property
    def _columns(self) -> MachineColumns:
        return machine_columns(self.graph)

    def _evaluate(self, genes: np.ndarray, *, with_starts: bool = False):
        generation = self.generation
        if generation == "backwards":
            until_end = self._turned.starts(genes)
            genes, generation = priorities(-(until_end + self.graph.duration)), "serial"
        return batch.evaluate_batch(
            self._columns,
            self._packed,
            genes,
            GENERATIONS[generation],
            with_starts=with_starts,
        )

    def _checked(self, chromosomes) -> np.ndarray:
        genes = np.asarray(chromosomes, np.float32)
        placement_chromosome.check_shape(genes.shape, self.num_genes)
        if np.isnan(genes).any():
            raise OptionError("chromosomes hold a value that is not a number")
        return genes


def priorities(start: np.ndarray) -> np.ndarray:
    """float32[B, O] in [0, 1): genes of serial generation that take ops by starts float64[B, O].

    No op of a valid schedule then starts later than in it: when an op's turn comes, those before it
    hold no more at its start, nor for longer, than they did.
    """
    num_ops = start.shape[1]
    rank = np.argsort(np.argsort(start, axis=1, kind="stable"), axis=1)
    return ((num_ops - 1 - rank) / num_ops).astype(np.float32)


@registry.environment(
    "rcpsp",
    applies=lambda graph, options: has_machines(graph, options.objective),
    scope="schedules graphs with machine types (a capacity) for --objective=makespan",
)
def machine_problem(graph: ComputationGraph, options: Any) -> MachineProblem:
    """The problem of ``Options``. Raises OptionError for options that don't apply."""
    problem = MachineProblem(graph, generation=options.generation or "parallel")
    if options.num_devices not in (None, problem.num_types):
        raise OptionError(
            f"num_devices is {options.num_devices}, but the graph has {problem.num_types}"
            " machine types"
        )
    if (options.memory_capacity, options.latency, options.per_byte) != (None, 0.0, 0.0):
        raise OptionError(
            "memory_capacity, latency and per_byte don't apply to graphs with machine types"
        )
    if options.target is not None:
        raise OptionError("targets are for identical devices; the graph has machine types")
    return problem


def _check(graph: ComputationGraph) -> None:
    if graph.capacity is None:
        raise OptionError(
            f"graph {graph.name!r} has no capacity: give it the units of each machine type,"
            " graph.replace(capacity=np.array([...])) or 'capacity' in its file"
        )
    if graph.num_ops == 0:
        raise GraphError("ops", f"graph {graph.name!r} has no op to schedule")
    over = np.flatnonzero(graph.demand > graph.capacity[graph.machine_type])
    if over.size:
        op = int(over[0])
        machine = int(graph.machine_type[op])
        raise GraphError(
            "ops.demand",
            f"op {op} needs {graph.demand[op]} units of machine type {machine},"
            f" whose capacity is {graph.capacity[machine]}",
        )
