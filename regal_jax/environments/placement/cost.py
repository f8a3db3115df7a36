"""The cost of chromosomes as one function of (graph, chromosomes), for any search.

Two implementations with one meaning: ``batch`` calls the compiled CPU kernel from inside jit, and
``jax`` is pure JAX for accelerators. A graph enters as an operand, not as a constant, so that
graphs padded to one shape share a compilation and can be stacked for ``vmap``.
"""

import functools
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments.placement import batch, columns, ffi, kernel
from regal_jax.environments.placement import chromosome as placement_chromosome
from regal_jax.environments.placement.columns import NativeGraph
from regal_jax.environments.placement.list_scheduler import list_schedule
from regal_jax.environments.placement.makespan import makespan
from regal_jax.environments.placement.peak_memory import peak_memory
from regal_jax.environments.platform import Platform
from regal_jax.graphs import batching
from regal_jax.graphs.batching import GraphArrays, GraphShape
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.native import packing

Backend = Literal["native", "jax"]


class CostModel(NamedTuple):
    """Everything but the graph that a cost depends on; hashable, so it can be a static argument.

    Attributes:
      objective: "peak_memory" or "makespan".
      num_devices: D.
      num_ops, num_tensors: O and T of the chromosome's layout (padding included).
      capacities: bytes per device, or None when unlimited.
      latency, per_byte: us, of a tensor that crosses devices.
      backend: which implementation.
    """

    objective: str
    num_devices: int
    num_ops: int
    num_tensors: int
    capacities: tuple[float, ...] | None
    latency: float
    per_byte: float
    backend: Backend

    @property
    def with_makespan(self) -> bool:
        return self.objective == "makespan"

    @property
    def num_genes(self) -> int:
        return placement_chromosome.num_genes(self.num_ops, self.num_tensors, self.num_devices)

    def costs(self, operand: Any, chromosomes: jax.Array) -> jax.Array:
        """See ``costs``."""
        return costs(self, operand, chromosomes)


def default_backend() -> Backend:
    """The compiled kernel on CPU, pure JAX on accelerators."""
    return "native" if jax.default_backend() == "cpu" else "jax"


def cost_model(
    objective: str, platform: Platform, shape: GraphShape, backend: Backend
) -> CostModel:
    """The cost model of a platform for chromosomes of graphs padded to a shape."""
    limited = platform.memory_capacity is not None
    return CostModel(
        objective=objective,
        num_devices=platform.num_devices,
        num_ops=shape.ops,
        num_tensors=shape.tensors,
        capacities=tuple(platform.capacities().tolist()) if limited else None,
        latency=platform.latency,
        per_byte=platform.per_byte,
        backend=backend,
    )


def operand(graph: ComputationGraph, shape: GraphShape, backend: Backend) -> Any:
    """What ``costs`` takes as its graph: a packed int32 buffer, or padded GraphArrays."""
    if backend == "jax":
        return batching.graph_arrays(graph, shape)
    packed = packing.pack(columns.native_graph(graph))
    length = columns.packed_length(shape.ops, shape.tensors, shape.edges)
    return np.pad(packed, (0, length - len(packed)))


def costs(model: CostModel, graph: Any, chromosomes: jax.Array) -> jax.Array:
    """float[B]: the cost to minimise of chromosomes float32[B, genes]; pure, jit and vmap.

    Within the memory capacity it is the objective: bytes of the fullest device, or us. Beyond it,
    it is more than any schedule within it can cost, plus the bytes in excess over all devices.
    """
    if model.backend == "native":
        return _native_costs(model)(graph, chromosomes)
    return jax.vmap(lambda chromosome: _jax_cost(model, graph, chromosome))(chromosomes)


def exact_costs(model: CostModel, graph: NativeGraph, chromosomes: np.ndarray) -> np.ndarray:
    """float64[B]: ``costs`` by the compiled kernel, outside JAX; exact for integers to 2**53."""
    peak, makespan = batch.evaluate_batch(
        graph,
        chromosomes,
        num_devices=model.num_devices,
        op_capacity=model.num_ops,
        with_makespan=model.with_makespan,
        latency=model.latency,
        per_byte=model.per_byte,
    )
    cost = makespan if model.with_makespan else peak.max(axis=1).astype(np.float64)
    if model.capacities is not None:
        capacities = np.array(model.capacities)
        cost_model = (model.with_makespan, float(model.latency), float(model.per_byte))
        kernel.penalise(graph, cost, peak, capacities, cost_model)
    return cost


def population_statistics(model: CostModel, graph: Any, chromosomes) -> np.ndarray:
    """float32[O, D + 1]: share of chromosomes [B, genes] that place an op on each device, and its
    mean place in the order, from 0 (first step) to 1 (last step). Zeros for padding ops."""
    if model.backend == "native":
        return _native_statistics(model, np.asarray(graph), np.asarray(chromosomes))
    return np.asarray(_jax_population_statistics(model, graph, chromosomes))


@functools.cache
def _native_costs(model: CostModel):
    """The kernel as a function of one packed graph and its chromosomes, with a rule for vmap."""
    options = ffi.options(
        model.num_devices,
        model.num_ops,
        model.with_makespan,
        model.latency,
        model.per_byte,
        model.capacities,
    )

    @jax.custom_batching.custom_vmap
    def of_many(packed, chromosomes):
        transfer_genes = chromosomes.shape[-1] - model.num_ops * (model.num_devices + 1)
        num_tensors = transfer_genes // model.num_devices
        words = ffi.scratch_words(model.num_ops, num_tensors, model.num_devices)
        return ffi.batch_costs(packed, chromosomes, options, scratch_words=words)

    @of_many.def_vmap
    def _(axis_size, in_batched, *operands):
        stacked = [
            operand if batched else jnp.broadcast_to(operand, (axis_size, *operand.shape))
            for operand, batched in zip(operands, in_batched, strict=True)
        ]
        flat = [operand.reshape(-1, *operand.shape[2:]) for operand in stacked]
        return of_many(*flat).reshape(stacked[1].shape[:3]), True

    return lambda packed, chromosomes: of_many(packed[None], chromosomes[None])[0]


@functools.partial(jax.jit, static_argnums=0)
def _jax_population_statistics(model: CostModel, graph: GraphArrays, chromosomes) -> jax.Array:
    return jnp.mean(jax.vmap(lambda c: _jax_statistics(model, graph, c))(chromosomes), axis=0)


def _native_statistics(model: CostModel, packed, chromosomes) -> np.ndarray:
    graph = columns.unpack(packed)
    num_devices, num_ops = model.num_devices, int(graph.counts[0])
    placement, steps = batch.decode_steps(
        graph, chromosomes, num_devices=num_devices, op_capacity=model.num_ops
    )
    rows, positions = np.nonzero((steps >= 0) & (steps < num_ops))
    last = np.maximum((steps >= 0).sum(axis=1) - 1, 1)
    place = np.zeros(placement.shape)
    place[rows, steps[rows, positions]] = positions / last[rows]
    statistics = np.zeros((model.num_ops, num_devices + 1), np.float32)
    for device in range(num_devices):
        statistics[:num_ops, device] = (placement == device).mean(axis=0)
    statistics[:num_ops, -1] = place.mean(axis=0)
    return statistics


def _jax_decode(model: CostModel, graph: GraphArrays, chromosome: jax.Array):
    genes = placement_chromosome.split(chromosome, model.num_ops, model.num_devices)
    placement = placement_chromosome.placement(genes)
    return placement, list_schedule(graph, placement, genes)


def _jax_cost(model: CostModel, graph: GraphArrays, chromosome: jax.Array) -> jax.Array:
    placement, order = _jax_decode(model, graph, chromosome)
    peak = peak_memory(graph, placement, order, model.num_devices)
    cost = jnp.max(peak).astype(float)
    if model.with_makespan:
        cost = makespan(
            graph,
            placement,
            order,
            num_devices=model.num_devices,
            latency=model.latency,
            per_byte=model.per_byte,
        )
    if model.capacities is None:
        return cost
    size = graph.size.at[graph.edge_tensor].get(mode="fill", fill_value=0)
    produced = graph.producer.at[graph.edge_tensor].get(mode="fill", fill_value=-1) >= 0
    crossings = jnp.sum(jnp.where(produced, model.latency + size * model.per_byte, 0.0))
    return _penalised(model, cost, peak, jnp.sum(graph.duration) + crossings)


def _jax_statistics(model: CostModel, graph: GraphArrays, chromosome: jax.Array) -> jax.Array:
    placement, order = _jax_decode(model, graph, chromosome)
    real = jnp.arange(model.num_ops) < graph.num_ops
    place = jnp.where(real, order.op, 0) / jnp.maximum(order.num_steps - 1, 1)
    share = jax.nn.one_hot(placement, model.num_devices) * real[:, None]
    return jnp.concatenate([share, place[:, None]], axis=1).astype(jnp.float32)


def _penalised(model: CostModel, cost, peak, serial) -> jax.Array:
    """As ``kernel.penalised``, with a given ceiling for makespans."""
    capacities = model.capacities or ()
    excess = jnp.sum(jnp.maximum(peak - jnp.asarray(capacities), 0.0))
    ceiling = serial if model.with_makespan else max(capacities)
    return jnp.where(excess > 0, ceiling * kernel.ABOVE + excess, cost)
