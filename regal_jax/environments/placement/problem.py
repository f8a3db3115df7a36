"""PlacementProblem: one graph on one platform as a function of chromosomes."""

import functools
from typing import Any

import jax
import numpy as np

from regal_jax import registry
from regal_jax.environments.base import has_machines
from regal_jax.environments.placement import batch, bounds, checker, columns
from regal_jax.environments.placement import chromosome as placement_chromosome
from regal_jax.environments.placement import cost as placement_cost
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import Objective, Schedule, check_objective
from regal_jax.errors import GraphError, OptionError
from regal_jax.graphs.batching import GraphShape, exact_shape, shared_shape
from regal_jax.graphs.computation_graph import MAX_INTEGER, ComputationGraph


class PlacementProblem:
    """Which device runs each op of a graph, and in what order, at the least cost.

    Args:
      graph: the graph.
      num_devices, memory_capacity, latency, per_byte: see ``Platform``.
      objective: "peak_memory" (bytes of the fullest device) or "makespan" (us).
      shape: sizes the graph is padded to inside a search, by default one out of few
        (``shared_shape``); chromosomes given to the methods of this class are never padded.
      backend: "native" (compiled, CPU) or "jax" (pure JAX, any device); by default what suits
        JAX's default device.

    Raises:
      OptionError: for an option out of range. GraphError: for a graph whose total bytes exceed
        2**53, so that its costs would not be exact.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        num_devices: int = 2,
        objective: Objective = "peak_memory",
        *,
        memory_capacity: int | tuple[int, ...] | None = None,
        latency: float = 0.0,
        per_byte: float = 0.0,
        shape: GraphShape | None = None,
        backend: placement_cost.Backend | None = None,
    ):
        check_objective(objective)
        self.graph = graph
        self.objective: Objective = objective
        self.platform = Platform(num_devices, memory_capacity, latency, per_byte)
        self.shape = shape or shared_shape(graph)
        self.backend = backend or placement_cost.default_backend()
        total = float(graph.size.astype(float).sum() + graph.workspace.max(initial=0))
        if total > MAX_INTEGER:
            raise GraphError("tensors.size", "the sizes add up to more than 2**53 bytes")

    @classmethod
    def on(
        cls,
        graph: ComputationGraph,
        platform: Platform,
        objective: Objective = "peak_memory",
        *,
        shape: GraphShape | None = None,
        backend: placement_cost.Backend | None = None,
    ) -> "PlacementProblem":
        """The problem of a platform that exists already."""
        return cls(
            graph,
            platform.num_devices,
            objective,
            memory_capacity=platform.memory_capacity,  # type: ignore[arg-type]
            latency=platform.latency,
            per_byte=platform.per_byte,
            shape=shape,
            backend=backend,
        )

    @property
    def num_devices(self) -> int:
        return self.platform.num_devices

    @property
    def num_genes(self) -> int:
        """Genes of a chromosome: O * D + O + T * D."""
        graph = self.graph
        return placement_chromosome.num_genes(graph.num_ops, graph.num_tensors, self.num_devices)

    @functools.cached_property
    def lower_bound(self) -> float:
        """A bound no schedule can beat: bytes, or us."""
        if self.objective == "makespan":
            return bounds.makespan_bound(self.graph, self.platform)
        return bounds.peak_memory_bound(self.graph, self.num_devices, self.together_bound)

    @functools.cached_property
    def together_bound(self) -> int:
        """Bytes that all devices together need at some op, whatever the order."""
        return bounds.together_bound(self.graph)

    @property
    def spec(self) -> placement_cost.CostModel:
        """The cost of chromosomes padded to this problem's shape."""
        return placement_cost.cost_model(self.objective, self.platform, self.shape, self.backend)

    @functools.cached_property
    def operand(self):
        """The graph padded to this problem's shape, what ``spec.costs`` reads."""
        return placement_cost.operand(self.graph, self.shape, self.backend)

    def pad(self, chromosomes: np.ndarray) -> np.ndarray:
        """Chromosomes float32[B, genes] in the layout of ``spec.costs``."""
        return placement_chromosome.pad(chromosomes, *self._sizes, self.num_devices)

    def unpad(self, chromosomes: np.ndarray) -> np.ndarray:
        """The reverse of ``pad``."""
        return placement_chromosome.unpad(chromosomes, *self._sizes, self.num_devices)

    @property
    def _sizes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(ops, tensors) of the graph, and of the shape it is padded to."""
        return (self.graph.num_ops, self.graph.num_tensors), (self.shape.ops, self.shape.tensors)

    def fitness(self, chromosomes):
        """Costs of chromosomes, lower is better.

        Args:
          chromosomes: float32[B, genes], in the layout of ``placement_chromosome``.

        Returns:
          float[B]: float64 and exact for arrays; inside jit a traced array of JAX's precision.

        Raises:
          OptionError: for a wrong shape or a value that is not a number.
        """
        shape = exact_shape(self.graph)
        model = placement_cost.cost_model(self.objective, self.platform, shape, self.backend)
        if not (isinstance(chromosomes, jax.core.Tracer) or self.backend == "jax"):
            model = model._replace(num_ops=self.graph.num_ops)
            return placement_cost.exact_costs(model, self._columns, self._checked(chromosomes))
        placement_chromosome.check_shape(chromosomes.shape, self.num_genes)
        return placement_cost.costs(model, self._exact_operand(), self._extended(chromosomes))

    def decode(self, chromosome, **attributes) -> Schedule:
        """The schedule of one chromosome float32[genes], with its exact cost.

        Keyword arguments (method, seed, ...) are attributes of the Schedule. Raises OptionError.
        """
        chromosomes = self._checked(np.asarray(chromosome)[None])
        graph = columns.native_graph(self.graph)
        placement, steps = batch.decode_steps(graph, chromosomes, num_devices=self.num_devices)
        schedule = Schedule(
            graph=self.graph.name,
            objective=self.objective,
            num_devices=self.num_devices,
            placement=placement[0],
            steps=steps[0][steps[0] >= 0],
            lower_bound=self.lower_bound,
        )
        return self.costed(schedule).replace(**attributes)

    def costed(self, schedule: Schedule) -> Schedule:
        """The schedule with its exact costs filled in. Raises ScheduleError if it is invalid."""
        unlimited = Platform(
            self.num_devices, latency=self.platform.latency, per_byte=self.platform.per_byte
        )
        cost = checker.evaluate(self.graph, schedule, unlimited)
        return schedule.replace(
            peak_memory=tuple(cost.peak_memory.tolist()),
            makespan=cost.makespan,
            start=cost.start if self.objective == "makespan" else None,
        )

    def encode(self, schedule: Schedule) -> np.ndarray:
        """A chromosome float32[genes] that decodes to this valid schedule."""
        return placement_chromosome.encode(schedule, self.graph)

    def fits(self, schedule: Schedule) -> bool:
        """Whether the schedule stays within the memory capacity."""
        return bool(np.all(np.array(schedule.peak_memory) <= self.platform.capacities()))

    @functools.cached_property
    def _columns(self) -> columns.NativeGraph:
        return columns.native_graph(self.graph)

    def _exact_operand(self):
        return placement_cost.operand(self.graph, exact_shape(self.graph), self.backend)

    def _extended(self, chromosomes):
        """Chromosomes of a graph without ops or tensors get a padding one's genes."""
        shape = exact_shape(self.graph)
        if self.graph.num_ops and self.graph.num_tensors:
            return chromosomes
        count = placement_chromosome.num_genes(shape.ops, shape.tensors, self.num_devices)
        if not self.graph.num_ops:
            return jax.numpy.zeros((len(chromosomes), count), jax.numpy.float32)
        return jax.numpy.pad(chromosomes, ((0, 0), (0, count - self.num_genes)))

    def _checked(self, chromosomes) -> np.ndarray:
        genes = np.asarray(chromosomes, np.float32)
        placement_chromosome.check_shape(genes.shape, self.num_genes)
        if not np.all(np.isfinite(genes)):
            raise OptionError("chromosomes hold a value that is not a finite number")
        return genes


@registry.environment(
    "placement",
    applies=lambda graph, options: not has_machines(graph, options.objective),
    scope="places ops on identical devices",
)
def placement_problem(graph: ComputationGraph, options: Any) -> PlacementProblem:
    """The problem of ``Options``, by default on two devices. Raises OptionError."""
    if options.generation is not None:
        raise OptionError("generation is for graphs with machine types (a capacity)")
    return PlacementProblem(
        graph,
        2 if options.num_devices is None else options.num_devices,
        options.objective,
        memory_capacity=options.memory_capacity,
        latency=options.latency,
        per_byte=options.per_byte,
    )
