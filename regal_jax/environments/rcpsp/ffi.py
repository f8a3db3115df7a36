"""Machine problems' kernels inside jitted programs (see ``native.bridge``)."""

from regal_jax.environments.rcpsp import kernel
from regal_jax.native import bridge

TARGETS = ("regal_jax_machines", "regal_jax_machines_serial")
"""By generation."""


def makespans(packed, chromosomes, generation: int, *, scratch_words: int):
    """float32[B]: makespans of chromosomes.

    Args:
      packed: int32[P], what ``batch.pack`` makes of a graph; padding at its end is ignored, so
        graphs of one length share a compilation.
      chromosomes: float32[B, genes], which may be padded.
      generation: ``kernel.PARALLEL`` or ``SERIAL``.
      scratch_words: at least ``batch.scratch_words(graph)``.
    """
    return bridge.call(
        TARGETS[generation],
        kernel.HANDLERS[generation],
        (packed, chromosomes),
        chromosomes.shape[:1],
        scratch_words=scratch_words,
        vmap_method="sequential",
    )
