"""Along which dimensions an equation can be run slice by slice.

An equation is a loop nest: along a dimension of it, some of its inputs and outputs have an axis
each, and the others don't. Where outputs have none, what slices make is added up, or the largest
taken. A dimension may be sliced if every slice of the outputs depends on the same slice of the
inputs alone: batches of a product, rows of a matrix, but not the axis of a sort.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
from jax.extend.core import JaxprEqn

from regal_jax.compiler.barriers.kernels import ELEMENTWISE
from regal_jax.compiler.slices.random_bits import hashes_places

_ELEMENTWISE = ELEMENTWISE | {
    *("bessel_i0e", "bessel_i1e", "clz", "digamma", "igamma", "igamma_grad_a", "igammac"),
    *("lgamma", "mulhi", "name", "polygamma", "population_count"),
    *("regularized_incomplete_beta", "threefry2x32", "zeta"),
}
"""Primitives whose outputs have the shape of all inputs but scalars and axes of size one."""

OF_MATRICES = frozenset({"cholesky", "eig", "eigh", "lu", "qr", "svd"})
"""Primitives that factorise."""

Axis = int | None

PART = -1
"""In place of an axis: a part of what all slices add up to."""


class Dim(NamedTuple):
    """A dimension along which an equation can be sliced.

    Attributes:
      inputs, outputs: the axis of each that is sliced, None for those that are whole.
      combine: what makes one of the whole outputs of slices: "add", "max" or "min".
      same: outputs that every slice makes whole, by number.
      body: how every turn of a loop is sliced, if the equation is one.
      once: inputs that all slices add to, by number: they count in the first of them alone.
      coordinate: of the indices of a gather or a scatter, the one that lies on the sliced axis.
    """

    inputs: tuple[Axis, ...]
    outputs: tuple[Axis, ...]
    combine: str = ""
    same: frozenset[int] = frozenset()
    body: Any = None
    once: frozenset[int] = frozenset()
    coordinate: int | None = None

    @property
    def made(self) -> list[Axis]:
        """The axis of each output that is sliced, or PART of what is added up, or None."""
        return [
            PART if self.combine == "add" and axis is None and place not in self.same else axis
            for place, axis in enumerate(self.outputs)
        ]


def dims_of(equation: JaxprEqn) -> list[Dim]:
    """All dimensions of an equation that are known to be slices of their own."""
    atoms: list[Any] = [*equation.invars, *equation.outvars]
    if equation.primitive.name == "random_bits" and hashes_places(equation):
        return [Dim((None,), (axis,)) for axis in range(len(equation.params["shape"]))]
    if any(is_opaque(atom.aval) for atom in atoms):
        return []
    every = [tuple(atom.aval.shape) for atom in atoms]
    shapes, results = every[: len(equation.invars)], every[len(equation.invars) :]
    name = equation.primitive.name
    if name in _ELEMENTWISE:
        return list(_elementwise(shapes, results))
    rule = _RULES.get(name)
    return [] if rule is None else list(rule(shapes, results, equation.params))


def sliced(equation: JaxprEqn, dim: Dim, turns: int) -> JaxprEqn:
    """The equation of one of so many slices. An iota counts from the slice's beginning."""
    name = equation.primitive.name
    sizes, axis = _SIZES.get(name), dim.outputs[0]
    if name == "gather":  # along indices a slice has one of the operand's
        axis = dim.inputs[0] if dim.inputs[1] is None else None
    if sizes is None or axis is None:
        return equation
    of_slice = list(equation.params[sizes])
    of_slice[axis] //= turns
    return equation.replace(params=equation.params | {sizes: tuple(of_slice)})


def is_opaque(aval: Any) -> bool:
    """Whether a value isn't an array of numbers, such as a random key."""
    dtype = getattr(aval, "dtype", None)
    return dtype is None or jax.dtypes.issubdtype(dtype, jax.dtypes.extended)


Shape = tuple[int, ...]
Rule = Callable[[Sequence[Shape], Sequence[Shape], Mapping[str, Any]], Iterator[Dim]]


def _elementwise(shapes: Sequence[Shape], results: Sequence[Shape], params=None) -> Iterator[Dim]:
    """Scalars, and axes of size one, go with every slice."""
    result = results[0]
    if any(len(shape) not in (0, len(result)) for shape in (*shapes, *results)):
        return
    for axis, size in enumerate(result):
        inputs = tuple(axis if shape and shape[axis] == size else None for shape in shapes)
        yield Dim(inputs, (axis,) * len(results))


def _broadcast(shapes, results, params) -> Iterator[Dim]:
    (result,), places = results, params["broadcast_dimensions"]
    others = (None,) * (len(shapes) - 1)
    for axis, size in enumerate(result):
        own = places.index(axis) if axis in places else None
        if own is not None and shapes[0][own] != size:
            own = None
        yield Dim((own, *others), (axis,))


def _reshape(shapes, results, params) -> Iterator[Dim]:
    """Axes that begin at the same place; those behind it lie inside."""
    if params.get("dimensions") is not None:
        return
    (result,), others = results, (None,) * (len(shapes) - 1)
    starts = {(math.prod(result[:axis])): axis for axis in range(len(result)) if result[axis] > 1}
    for axis, size in enumerate(shapes[0]):
        to = starts.get(math.prod(shapes[0][:axis]))
        if size > 1 and to is not None:
            yield Dim((axis, *others), (to,))


def _squeeze(shapes, results, params) -> Iterator[Dim]:
    dropped = {axis % len(shapes[0]) for axis in params["dimensions"]}
    kept = [axis for axis in range(len(shapes[0])) if axis not in dropped]
    for to, axis in enumerate(kept):
        yield Dim((axis,), (to,))


def _transpose(shapes, results, params) -> Iterator[Dim]:
    for to, axis in enumerate(params["permutation"]):
        yield Dim((axis,), (to,))


def _iota(shapes, results, params) -> Iterator[Dim]:
    for axis in range(len(results[0])):
        yield Dim((None,) * len(shapes), (axis,))


def _slice(shapes, results, params) -> Iterator[Dim]:
    for axis, (size, taken) in enumerate(zip(shapes[0], results[0], strict=True)):
        if size == taken:
            yield Dim((axis,), (axis,))


def _dynamic(arrays: int) -> Rule:
    """Axes that what is taken, or put in, has all of: it begins at 0 there."""

    def rule(shapes, results, params) -> Iterator[Dim]:
        small = [*shapes[:arrays], *results][1]
        starts = (None,) * (len(shapes) - arrays)
        for axis, (size, taken) in enumerate(zip(shapes[0], small, strict=True)):
            if size == taken:
                yield Dim((axis,) * arrays + starts, (axis,))

    return rule


def _pad(shapes, results, params) -> Iterator[Dim]:
    for axis, config in enumerate(params["padding_config"]):
        if tuple(config) == (0, 0, 0):
            yield Dim((axis, None), (axis,))


def _bitcast(shapes, results, params) -> Iterator[Dim]:
    """But the axis of an element's parts, where these are narrower."""
    for axis in range(min(len(shapes[0]), len(results[0]))):
        yield Dim((axis,), (axis,))


def _triangular_solve(shapes, results, params) -> Iterator[Dim]:
    """Right sides, too."""
    rank = len(shapes[1])
    for axis in range(rank - 2):
        yield Dim((axis, axis), (axis,))
    sides = rank - 1 if params["left_side"] else rank - 2
    yield Dim((None, sides), (sides,))


def _but(axes: Callable[[Mapping[str, Any]], Sequence[int]]) -> Rule:
    """All axes but some."""

    def rule(shapes, results, params) -> Iterator[Dim]:
        without = {axis % len(shapes[0]) for axis in axes(params)}
        for axis in range(len(shapes[0])):
            if axis not in without:
                yield Dim((axis,) * len(shapes), (axis,) * len(results))

    return rule


def _reduction(combine: str = "") -> Rule:
    def rule(shapes, results, params) -> Iterator[Dim]:
        (shape,), gone = set(shapes), set(params["axes"])
        for axis in range(len(shape)):
            to = axis - sum(other < axis for other in gone)
            if axis not in gone:
                yield Dim((axis,) * len(shapes), (to,) * len(results))
            elif combine:
                yield Dim((axis,), (None,), combine)

    return rule


def _dot(shapes, results, params) -> Iterator[Dim]:
    (lefts, rights), (left_batch, right_batch) = params["dimension_numbers"]
    for to, pair in enumerate(zip(left_batch, right_batch, strict=True)):
        yield Dim(pair, (to,))
    for pair in zip(lefts, rights, strict=True):
        yield Dim(pair, (None,), "add")
    to = len(left_batch)
    for axis in range(len(shapes[0])):
        if axis not in (*lefts, *left_batch):
            yield Dim((axis, None), (to,))
            to += 1
    for axis in range(len(shapes[1])):
        if axis not in (*rights, *right_batch):
            yield Dim((None, axis), (to,))
            to += 1


def _convolution(shapes, results, params) -> Iterator[Dim]:
    numbers = params["dimension_numbers"]
    batch, features = numbers.lhs_spec[:2]
    made, read = numbers.rhs_spec[:2]
    if params["batch_group_count"] == 1:
        yield Dim((batch, None), (numbers.out_spec[0],))
    if params["feature_group_count"] == 1:
        yield Dim((features, read), (None,), "add")
    if params["batch_group_count"] == params["feature_group_count"] == 1:
        yield Dim((None, made), (numbers.out_spec[1],))


def _window(shapes, results, params) -> Iterator[Dim]:
    """Axes whose windows are one wide."""
    rank = len(shapes[0])
    ones, none = (1,) * rank, ((0, 0),) * rank
    sizes = params["window_dimensions"]
    steps = params.get("window_strides") or ones
    dilated = [params.get(name) or ones for name in ("base_dilation", "window_dilation")]
    padding = params.get("padding") or none
    for axis in range(rank):
        is_one = all(of[axis] == 1 for of in (sizes, steps, *dilated))
        if is_one and tuple(padding[axis]) == (0, 0):
            inputs = tuple(axis if len(shape) == rank else None for shape in shapes)
            yield Dim(inputs, (axis,) * len(results))


def _gather(shapes, results, params) -> Iterator[Dim]:
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    offset = numbers.offset_dims
    places = [axis for axis in range(len(results[0])) if axis not in offset]
    beside = dict(
        zip(numbers.start_indices_batching_dims, numbers.operand_batching_dims, strict=True)
    )
    for axis, to in enumerate(places):
        yield Dim((beside.get(axis), axis), (to,))
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    windows = [axis for axis in range(len(shapes[0])) if axis not in gone]
    for axis, to in zip(windows, offset, strict=True):
        if sizes[axis] == shapes[0][axis] and axis not in numbers.start_index_map:
            yield Dim((axis, None), (to,))
    for coordinate, axis in enumerate(numbers.start_index_map):
        if sizes[axis] == 1 < shapes[0][axis]:
            yield Dim((axis, None), (None,), "add", coordinate=coordinate)


def _scatter(shapes, results, params) -> Iterator[Dim]:
    numbers, (operand, _, updates) = params["dimension_numbers"], shapes
    windows = numbers.update_window_dims
    places = [axis for axis in range(len(updates)) if axis not in windows]
    pairs = zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    for axis, of_indices in pairs:
        yield Dim((axis, of_indices, places[of_indices]), (axis,))
    gone = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    kept = [axis for axis in range(len(operand)) if axis not in gone]
    for axis, of_updates in zip(kept, windows, strict=True):
        is_whole = operand[axis] == updates[of_updates]
        if is_whole and axis not in numbers.scatter_dims_to_operand_dims:
            yield Dim((axis, None, of_updates), (axis,))
    for coordinate, axis in enumerate(numbers.scatter_dims_to_operand_dims):
        is_clipped = params["mode"] == jax.lax.GatherScatterMode.CLIP
        if axis in numbers.inserted_window_dims and operand[axis] > 1 and not is_clipped:
            yield Dim((axis, None, None), (axis,), coordinate=coordinate)


def _scatter_add(shapes, results, params) -> Iterator[Dim]:
    """What is added at some of the places, too."""
    yield from _scatter(shapes, results, params)
    numbers, updates = params["dimension_numbers"], shapes[2]
    places = [axis for axis in range(len(updates)) if axis not in numbers.update_window_dims]
    for of_indices, of_updates in enumerate(places):
        if of_indices not in numbers.scatter_indices_batching_dims:
            yield Dim((None, of_indices, of_updates), (None,), "add", once=frozenset({0}))


_WINDOWED = (
    *("reduce_window_sum", "reduce_window_max", "reduce_window_min"),
    *("select_and_scatter_add", "select_and_gather_add"),
)
_REDUCING = ("reduce_prod", "reduce_and", "reduce_or", "reduce_xor", "argmax", "argmin")
_SCATTERING = ("scatter", "scatter-mul", "scatter-min", "scatter-max", "scatter-sub")
_CUMULATIVE = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")

_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "broadcast_in_dim": _broadcast,
        "reshape": _reshape,
        "squeeze": _squeeze,
        "transpose": _transpose,
        "bitcast_convert_type": _bitcast,
        "iota": _iota,
        "slice": _slice,
        "dynamic_slice": _dynamic(1),
        "dynamic_update_slice": _dynamic(2),
        "pad": _pad,
        "concatenate": _but(lambda params: (params["dimension"],)),
        "split": _but(lambda params: (params["axis"],)),
        "rev": _but(lambda params: params["dimensions"]),
        "sort": _but(lambda params: (params["dimension"],)),
        "approx_top_k": _but(lambda params: (params["reduction_dimension"],)),
        "top_k": _but(lambda params: (params.get("axis", -1),)),
        **dict.fromkeys(_CUMULATIVE, _but(lambda params: (params["axis"],))),
        "reduce_sum": _reduction("add"),
        "reduce_max": _reduction("max"),
        "reduce_min": _reduction("min"),
        **dict.fromkeys(_REDUCING, _reduction()),
        "dot_general": _dot,
        "conv_general_dilated": _convolution,
        **dict.fromkeys(_WINDOWED, _window),
        "gather": _gather,
        "fft": _but(lambda params: range(-len(params["fft_lengths"]), 0)),
        **dict.fromkeys(OF_MATRICES, _but(lambda params: (-2, -1))),
        "triangular_solve": _triangular_solve,
        **dict.fromkeys(_SCATTERING, _scatter),
        "scatter-add": _scatter_add,
    }
)


_SIZES: Mapping[str, str] = MappingProxyType(
    {
        "broadcast_in_dim": "shape",
        "iota": "shape",
        "reshape": "new_sizes",
        "slice": "limit_indices",
        "dynamic_slice": "slice_sizes",
        "gather": "slice_sizes",
    }
)
"""The parameter that has sizes: the output's, and the operand's of gather."""
