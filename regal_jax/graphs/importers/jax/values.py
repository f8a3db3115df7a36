"""What a jaxpr's values weigh, and which equations only rename one."""

import math
from typing import Any

import numpy as np
from jax import dtypes

from regal_jax.errors import ImporterError


def value_shape(aval: Any) -> tuple[int, ...]:
    """The shape of an abstract value; empty for tokens. ImporterError for symbolic sizes."""
    try:
        return tuple(int(size) for size in getattr(aval, "shape", ()))
    except Exception:
        message = (
            f"from_jax: the shape {aval.shape} is symbolic; give example arguments of fixed shape"
        )
        raise ImporterError(message) from None


def value_bytes(aval: Any) -> int:
    """Exact bytes: elements * bits / 8, rounded up for 4-bit and smaller types.

    Random keys weigh their base array; float0 and tokens 0; a reference what it refers to.
    """
    if not hasattr(aval, "dtype"):
        return 0
    return -(-math.prod(value_shape(aval)) * _bits(aval.dtype) // 8)


def renamed_inputs(primitive: str, inputs: list[Any], outputs: list[Any], params: Any) -> bool:
    """Whether each output of an equation is its input under another name: nothing is copied.

    ``inputs`` and ``outputs`` are abstract values. Zero-copy are exactly: reshape (without a
    permutation), squeeze, expand_dims, stop_gradient, optimization_barrier, name (of a
    checkpoint), random_wrap, random_unwrap, pvary and pcast; convert_element_type to the same
    type; bitcast_convert_type to one of the same width; broadcast_in_dim that keeps the size.
    Slices, transposes and copies are not.
    """
    if len(inputs) != len(outputs) or not inputs:
        return False
    if primitive == "reshape":
        return params.get("dimensions") is None
    if primitive == "convert_element_type":
        return inputs[0].dtype == outputs[0].dtype
    if primitive in ("bitcast_convert_type", "broadcast_in_dim"):
        return value_bytes(inputs[0]) == value_bytes(outputs[0])
    return primitive in _RENAMES


_RENAMES = frozenset(
    """
    squeeze expand_dims stop_gradient optimization_barrier name random_wrap random_unwrap
    pvary pcast
    """.split()  # noqa: SIM905
)


def _bits(dtype: Any) -> int:
    if dtypes.issubdtype(dtype, dtypes.extended):
        return 8 * dtype.itemsize
    if dtype.itemsize == 1 and dtypes.issubdtype(dtype, np.integer):
        return int(dtypes.iinfo(dtype).bits)
    if dtype.itemsize == 1 and dtypes.issubdtype(dtype, np.floating):
        return int(dtypes.finfo(dtype).bits)
    return 8 * dtype.itemsize
