"""Floating-point operations of JAX primitives, by formulas over shapes.

| primitives | FLOPs |
|---|---|
| dot_general | 2 * batch * M * N * K |
| conv_general_dilated | 2 * output elements * kernel positions * input channels / groups |
| reduce_*, argmax, argmin, cum* | input elements |
| reduce_window*, select_and_scatter*, select_and_gather_add | windows * window size |
| scatter-add, -sub, -mul, -min, -max | update elements |
| sort, top_k, approx_top_k | n log2(length of the sorted axis) |
| fft | 5 n log2(transform size) |
| cholesky n^3/3, lu 2n^3/3, triangular_solve n^2 k, qr family 2mn^2 - 2n^3/3, eigh 9n^3, eig 25n^3, svd 22n^3 |
  per matrix, leading terms |
| data movement (transpose, slice, gather, concatenate, iota, copies, type changes, ...) | 0 |
| everything else (arithmetic, comparisons, exp, tanh, random bits, ...) | 1 per output element |

Dilated inputs and padding are counted as if dense. A transcendental function counts 1, as add does.
"""  # noqa: E501

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

Shapes = Sequence[Sequence[int]]
Formula = Callable[[Shapes, Shapes, Mapping[str, Any]], float]


def equation_flops(
    primitive: str, inputs: Shapes, outputs: Shapes, params: Mapping[str, Any]
) -> int:
    """FLOPs of one equation of a jaxpr, from the shapes of its inputs and outputs."""
    formula = _FORMULAS.get(primitive, _per_output_element)
    return round(formula(inputs, outputs, params))


def has_formula(primitive: str) -> bool:
    """Whether the table names this primitive (its sub-jaxprs, if any, need no look inside)."""
    return primitive in _FORMULAS


def _nothing(inputs: Shapes, outputs: Shapes, params: Mapping[str, Any]) -> float:
    return 0


def _per_output_element(inputs: Shapes, outputs: Shapes, params: Mapping[str, Any]) -> float:
    return sum(math.prod(shape) for shape in outputs)


def _per_input_element(inputs: Shapes, outputs: Shapes, params: Mapping[str, Any]) -> float:
    return math.prod(inputs[0])


def _dot_general(inputs: Shapes, outputs: Shapes, params: Mapping[str, Any]) -> float:
    (contracted, _), _ = params["dimension_numbers"]
    return 2 * math.prod(outputs[0]) * math.prod(inputs[0][axis] for axis in contracted)


def _convolution(inputs: Shapes, outputs: Shapes, params: Mapping[str, Any]) -> float:
    kernel, (output_channel, *_) = inputs[1], params["dimension_numbers"].rhs_spec
    per_output = math.prod(size for axis, size in enumerate(kernel) if axis != output_channel)
    return 2 * math.prod(outputs[0]) * per_output


def _windows(inputs: Shapes, outputs: Shapes, params: Mapping[str, Any]) -> float:
    return math.prod(outputs[0]) * math.prod(params["window_dimensions"])


def _scattered_windows(inputs: Shapes, outputs: Shapes, params: Mapping[str, Any]) -> float:
    return math.prod(inputs[0]) * math.prod(params["window_dimensions"])


def _scatter_updates(inputs: Shapes, outputs: Shapes, params: Mapping[str, Any]) -> float:
    return math.prod(inputs[2])


def _sort(inputs: Shapes, outputs: Shapes, params: Mapping[str, Any]) -> float:
    axis = params.get("dimension", params.get("reduction_dimension", -1))
    length = inputs[0][axis] if inputs[0] else 1
    return math.prod(inputs[0]) * math.log2(max(length, 1))


def _fft(inputs: Shapes, outputs: Shapes, params: Mapping[str, Any]) -> float:
    elements = max(math.prod(inputs[0]), math.prod(outputs[0]))
    return 5 * elements * math.log2(max(math.prod(params["fft_lengths"]), 1))


def _cubic(factor: float) -> Formula:
    """``factor * m * n * min(m, n)`` per matrix."""

    def formula(inputs: Shapes, outputs: Shapes, params: Mapping[str, Any]) -> float:
        *batch, rows, columns = inputs[0]
        return factor * math.prod(batch) * rows * columns * min(rows, columns)

    return formula


def _qr(inputs: Shapes, outputs: Shapes, params: Mapping[str, Any]) -> float:
    *batch, rows, columns = inputs[0]
    long, short = max(rows, columns), min(rows, columns)
    return math.prod(batch) * (2 * long * short**2 - 2 / 3 * short**3)


def _triangular_solve(inputs: Shapes, outputs: Shapes, params: Mapping[str, Any]) -> float:
    return math.prod(inputs[1]) * inputs[0][-1]


_MOVEMENT = """
    all_gather all_to_all bitcast_convert_type broadcast broadcast_in_dim concatenate
    convert_element_type copy copy_p device_put dynamic_slice dynamic_update_slice empty empty2
    expand_dims full gather get imag iota name new_ref freeze optimization_barrier pad pcast
    ppermute pvary random_unwrap random_wrap ragged_all_to_all real reshape reshard rev scatter
    select_and_gather sharding_constraint slice split squeeze stop_gradient swap tile transpose
    debug_callback debug_print io_callback pure_callback create_token after_all axis_index
    random_seed
""".split()  # noqa: SIM905

_REDUCTIONS = """
    argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce reduce_and reduce_max
    reduce_min reduce_or reduce_prod reduce_sum reduce_xor psum pmax pmin
""".split()  # noqa: SIM905

_FORMULAS: Mapping[str, Formula] = MappingProxyType(
    dict.fromkeys(_MOVEMENT, _nothing)
    | dict.fromkeys(_REDUCTIONS, _per_input_element)
    | dict.fromkeys(("sort", "top_k", "approx_top_k"), _sort)
    | {f"scatter-{kind}": _scatter_updates for kind in ("add", "sub", "mul", "min", "max")}
    | {f"scatter_{kind}": _scatter_updates for kind in ("add", "sub", "mul", "min", "max")}
    | {f"reduce_window{kind}": _windows for kind in ("", "_sum", "_max", "_min")}
    | dict.fromkeys(("select_and_scatter", "select_and_scatter_add"), _scattered_windows)
    | dict.fromkeys(("qr", "geqrf", "geqp3", "householder_product"), _qr)
    | {
        "select_and_gather_add": _windows,
        "dot_general": _dot_general,
        "conv_general_dilated": _convolution,
        "fft": _fft,
        "cholesky": _cubic(1 / 3),
        "lu": _cubic(2 / 3),
        "eigh": _cubic(9),
        "eig": _cubic(25),
        "svd": _cubic(22),
        "triangular_solve": _triangular_solve,
    }
)
