"""How long a kernel takes: its launch, and its roofline at the shares of the peaks it reaches."""

import enum
from collections.abc import Iterable

from regal_jax.compiler.accelerators.specifications import Specification

LAUNCH = 2.3e-6
"""Seconds of a GPU's kernel, however little it does, and until the next one begins."""

MEMORY = 0.8
"""The share of a GPU's peak bandwidth that kernels reach."""


class Kind(enum.Enum):
    """What a kernel multiplies; its value is the share of a GPU's peak rate that it reaches.

    These, LAUNCH and MEMORY are from the kernels of four train steps on an H200 (U-Net, ViT, LSTM,
    NASNet cells), but for GROUPED: what NASNet cells took longer on an H100 than expected, over the
    FLOPs of their grouped convolutions with large windows; a randomly wired network's with small
    ones took no longer. Other steps are held against them in docs/results/accelerators.md.
    """

    PRODUCT = 0.4
    CONVOLUTION = 0.15
    GROUPED = 0.003


SMALL_WINDOW = 9
"""Elements: grouped convolutions of no more have fast kernels."""


def convolution(groups: int, window: int) -> Kind:
    """Of a convolution with so many groups of features, or batches, and elements of its window."""
    return Kind.GROUPED if groups > 1 and window > SMALL_WINDOW else Kind.CONVOLUTION


def kernel_seconds(
    flops: float, moved: float, types: Iterable[str], kind: Kind, on: Specification
) -> float:
    """Seconds of one kernel of a GPU; arguments as of ``roofline_seconds``."""
    return LAUNCH + roofline_seconds(flops, moved, types, kind, on)


def roofline_seconds(
    flops: float, moved: float, types: Iterable[str], kind: Kind, on: Specification
) -> float:
    """Seconds of work, at the shares of the peaks that GPUs reach.

    Args:
      flops: floating-point operations.
      moved: bytes read and written.
      types: of what it makes, as XLA names them ("f32"); those without a rate count as "f32".
      kind: of the kernel.
      on: the device.
    """
    rates = on.flops_per_second
    rate = max((rates.get(dtype, 0.0) for dtype in types), default=0.0) or rates["f32"]
    return max(flops / (kind.value * rate), moved / (MEMORY * on.bytes_per_second))
