"""How long a kernel takes: its launch, and its roofline at the shares of the peaks it reaches."""

from collections.abc import Iterable

from regal_jax.compiler.accelerators.specifications import Specification

LAUNCH = 2.3e-6
"""Seconds of a GPU's kernel, however little it does, and until the next one begins."""

MEMORY, PRODUCTS, CONVOLUTIONS = 0.8, 0.4, 0.15
"""Shares of a GPU's peak bandwidth, and of its peak rate in matrix products and in convolutions,
that kernels reach. These four are from the kernels of four train steps on an H200 (U-Net, ViT,
LSTM, NASNet cells); other steps are held against them in docs/results/accelerators.md."""


def kernel_seconds(
    flops: float, moved: float, types: Iterable[str], is_convolution: bool, on: Specification
) -> float:
    """Seconds of one kernel.

    Args:
      flops: floating-point operations.
      moved: bytes read and written.
      types: of what it makes, as XLA names them ("f32"); those without a rate count as "f32".
      is_convolution: whether it is one.
      on: the device.
    """
    rates = on.flops_per_second
    rate = max((rates.get(dtype, 0.0) for dtype in types), default=0.0) or rates["f32"]
    share = CONVOLUTIONS if is_convolution else PRODUCTS
    return LAUNCH + max(flops / (share * rate), moved / (MEMORY * on.bytes_per_second))
