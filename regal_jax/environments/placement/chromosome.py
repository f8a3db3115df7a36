"""Chromosomes: what their genes mean, and how a schedule becomes one."""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments import bit_order
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph

SampleMutants = Callable[[chex.PRNGKey, int], jax.Array]
"""(key, count) -> float32[count, genes]: the chromosome generation distribution."""

Change = Callable[[chex.PRNGKey, jax.Array], jax.Array]
"""(key, parents float32[B, genes]) -> float32[B, genes]: a changed copy of each."""


class Genes(NamedTuple):
    """The three parts of a chromosome (REGAL 3.2.1), in this order, each row-major.

    Attributes:
      affinity: float32[O, D], of ops for devices.
      op_priority: float32[O].
      transfer_priority: float32[T, D], of copying a tensor to a device.
    """

    affinity: jax.Array
    op_priority: jax.Array
    transfer_priority: jax.Array


def check_shape(shape: tuple[int, ...], num_genes: int) -> None:
    """Raises OptionError for what is not a batch of chromosomes of so many genes."""
    if len(shape) != 2 or shape[1] != num_genes:
        raise OptionError(f"chromosomes must have shape [batch, {num_genes}], got {list(shape)}")


def num_genes(num_ops: int, num_tensors: int, num_devices: int) -> int:
    """Genes of a chromosome: O * D + O + T * D."""
    return num_ops * (num_devices + 1) + num_tensors * num_devices


def split(chromosome: jax.Array, num_ops: int, num_devices: int) -> Genes:
    """Names the parts of a chromosome float32[genes]."""
    transfers = num_ops * (num_devices + 1)
    return Genes(
        chromosome[: num_ops * num_devices].reshape(num_ops, num_devices),
        chromosome[num_ops * num_devices : transfers],
        chromosome[transfers:].reshape(-1, num_devices),
    )


def join(genes: Genes) -> jax.Array:
    """The chromosome of some genes, float32[genes]; the reverse of ``split``."""
    return jnp.concatenate([jnp.ravel(part) for part in genes])


def placement(genes: Genes) -> jax.Array:
    """int32[O]: argmax affinity, the lowest device on ties."""
    return jnp.argmax(bit_order.keys(genes.affinity), axis=-1).astype(jnp.int32)


def encode(schedule: Schedule, graph: ComputationGraph) -> np.ndarray:
    """A chromosome float32[genes] that decodes to exactly this valid schedule.

    Priorities fall along the schedule's steps, so that the next step is always the ready one of
    highest priority. Distinct in float32 up to 2**23 steps. Transfers that the schedule does
    without get the priority of the tensor's first reader: should a neighbouring schedule need one,
    it runs when that op would. Raises OptionError where an op runs again.
    """
    schedule.check_runs_once("a chromosome")
    num_ops, num_devices = graph.num_ops, schedule.num_devices
    affinity = np.zeros((num_ops, num_devices), np.float32)
    affinity[np.arange(num_ops), schedule.placement] = 1.0
    count = len(schedule.steps)
    steps = np.zeros(num_ops + graph.num_tensors * num_devices, np.float32)
    falling = (1.0 - np.arange(count) / max(count, 1)).astype(np.float32)
    steps[schedule.steps] = falling
    first_reader = np.zeros(graph.num_tensors, np.float32)
    readers = graph.consumers
    np.maximum.at(first_reader, readers.row_of_value(), steps[readers.values])
    steps[num_ops:] = np.repeat(first_reader, num_devices)
    steps[schedule.steps] = falling
    return np.concatenate([affinity.ravel(), steps])


def pad(chromosomes: np.ndarray, sizes: tuple[int, int], padded: tuple[int, int], num_devices: int):
    """Moves chromosomes [B, genes] of (O, T) ops and tensors into a layout for larger ones."""
    return _relayout(chromosomes, sizes, padded, num_devices)


def unpad(
    chromosomes: np.ndarray, sizes: tuple[int, int], padded: tuple[int, int], num_devices: int
):
    """The reverse of ``pad``: drops the genes of padding ops and tensors."""
    return _relayout(chromosomes, padded, sizes, num_devices)


def _relayout(chromosomes, old, new, num_devices):
    (old_ops, old_tensors), (ops, tensors) = old, new
    out = np.zeros((len(chromosomes), num_genes(ops, tensors, num_devices)), np.float32)
    starts = [0, old_ops * num_devices, old_ops * (num_devices + 1)]
    new_starts = [0, ops * num_devices, ops * (num_devices + 1)]
    kept_ops, kept_tensors = min(old_ops, ops), min(old_tensors, tensors)
    lengths = [kept_ops * num_devices, kept_ops, kept_tensors * num_devices]
    for start, new_start, length in zip(starts, new_starts, lengths, strict=True):
        out[:, new_start : new_start + length] = chromosomes[:, start : start + length]
    return out
