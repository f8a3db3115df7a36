"""Floating-point operations and bytes of ATen calls.

| calls | FLOPs |
|---|---|
| matrix products, convolutions, attention | ``torch.utils.flop_counter``, but for its gaps: |
| convolution_backward | the forward's for each gradient asked for (grouped ones, too) |
| _scaled_dot_product_flash_attention_for_cpu | 4 * query elements * key length; backward 10 |
| _native_multi_head_attention, _transformer_encoder_layer_fwd | their products, by the same rules |
| mv, dot, vdot, addmv | 2 * matrix or vector elements |
| mkldnn_rnn_layer | 2 * steps * batch * weights; backward twice that |
| *_norm, *_norm_backward, *softmax* | 5, backward 8, per element of the largest tensor |
| sum, mean, max, pooling, cum*, norms and other reductions | 1 per input element |
| sort, topk | n log2 n |
| _fft_* | 5 n log2 n |
| indexing, concatenation, copies, fills, type changes | 0 |
| everything else | 1 per element of the largest output |

Bytes: each distinct input view and each output once; what gather-like calls (``_GATHERS``) read of
their table is as much as they give.
"""

import math
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import flop_registry

from regal_jax.graphs.importers.torch.recording import Call, TensorView, tensor_views


def call_flops(call: Call) -> int:
    """FLOPs of one call; see the module's table."""
    formula = _FORMULAS.get(call.kind)
    if formula is not None:
        return round(formula(call))
    packet = call.function._overloadpacket
    if packet in flop_registry:
        arguments, keywords = tree_map(_empty, (call.args, call.kwargs))
        result = tree_map(_empty, call.result)
        return int(flop_registry[packet](*arguments, **keywords, out_val=result))
    return round(_by_name(call))


def call_bytes(call: Call) -> int:
    """Bytes a call reads and writes."""
    written = {view for view in tensor_views(call.result) if view.storage in call.makes}
    output_bytes = sum(view.num_bytes for view in written)
    changed = [view for view in set(call.views()) if view.storage in call.writes]
    if call.kind in _GATHERS:
        indices = sum(v.num_bytes for v in set(call.views()) if not v.dtype.is_floating_point)
        return 2 * (output_bytes or _smallest(changed)) + indices
    return (
        output_bytes
        + sum(view.num_bytes for view in set(call.views()))
        + sum(view.num_bytes for view in changed)
    )


def _empty(value: Any) -> Any:
    if isinstance(value, TensorView):
        return torch.empty_strided(value.shape, value.stride, dtype=value.dtype, device="meta")
    return value


def _smallest(views: list[TensorView]) -> int:
    return min((view.num_bytes for view in views), default=0)


def _elements(values: Any) -> int:
    return max((view.num_elements for view in tensor_views(values)), default=0)


def _largest(call: Call) -> int:
    return max(_elements((call.args, call.kwargs)), _elements(call.result))


def _convolution_backward(call: Call) -> float:
    gradient, inputs, weight = call.args[:3]
    transposed, wanted = call.args[7], call.args[10]
    positions = inputs if transposed else gradient
    spatial = math.prod(positions.shape[2:]) * positions.shape[0]
    forward = 2 * spatial * weight.num_elements
    return forward * (int(wanted[0]) + int(wanted[1]))


def _attention(call: Call) -> float:
    query, key, value = [view for view in call.args if isinstance(view, TensorView)][:3]
    rows = math.prod(query.shape[:-1])
    return 2 * rows * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def _attention_backward(call: Call) -> float:
    _, query, key, value = [view for view in call.args if isinstance(view, TensorView)][:4]
    rows = math.prod(query.shape[:-1])
    return 2 * rows * key.shape[-2] * (3 * query.shape[-1] + 2 * value.shape[-1])


def _multi_head_attention(call: Call) -> float:
    """Projections and attention of ``_native_multi_head_attention``, with a query of [B, N, E]."""
    query, key = call.args[:2]
    projections = call.args[5].num_elements + call.args[7].num_elements
    rows = math.prod(query.shape[:-1])
    return 2 * rows * (projections + 2 * key.shape[1] * query.shape[-1])


def _encoder_layer(call: Call) -> float:
    """``_transformer_encoder_layer_fwd``: self-attention and two dense layers."""
    source = call.args[0]
    weights = sum(call.args[place].num_elements for place in (3, 5, 14, 16))
    rows = math.prod(source.shape[:-1])
    return 2 * rows * (weights + 2 * source.shape[1] * source.shape[-1])


def _recurrent(times: int) -> Callable[[Call], float]:
    """``times`` * 2 * steps * batch * weights; the sequence is the first argument."""

    def formula(call: Call) -> float:
        sequence, *weights = [view for view in call.args if isinstance(view, TensorView)][:3]
        steps = math.prod(sequence.shape[:-1])
        return times * 2 * steps * sum(weight.num_elements for weight in weights)

    return formula


def _matrix_vector(call: Call) -> float:
    return 2 * _elements(call.args)


def _n_log_n(factor: float) -> Callable[[Call], float]:
    def formula(call: Call) -> float:
        elements = _largest(call)
        return factor * elements * math.log2(max(elements, 2))

    return formula


def _nothing(call: Call) -> float:
    return 0


def _by_name(call: Call) -> float:
    """The rules that go by a part of the name."""
    kind = call.kind.rstrip("_")
    if "fft" in kind:
        return _n_log_n(5)(call)
    if "norm" in kind or "softmax" in kind:
        return (8 if "backward" in kind else 5) * _largest(call)
    reduces = any(word in kind for word in _REDUCTIONS)
    if reduces or kind in ("max", "min", "amax", "amin", "any", "all", "prod", "var", "std"):
        return _largest(call)
    return max((_elements(view) for view in tensor_views(call.result)), default=0)


_REDUCTIONS = ("sum", "mean", "pool", "cum", "arg", "var_mean", "count", "dist")

_GATHERS = frozenset(
    """
    embedding gather index index_select take slice_scatter select_scatter embedding_dense_backward
    index_put_ index_copy_ scatter_ slice_backward select_backward
    """.split()  # noqa: SIM905
)

_MOVEMENT = """
    _to_copy alias arange as_strided as_strided_copy cat clone constant_pad_nd copy copy_ detach
    embedding embedding_dense_backward empty empty_like empty_strided expand_copy eye fill fill_
    full full_like gather im2col index index_copy index_copy_ index_put index_put_ index_select
    lift_fresh lift_fresh_copy linspace masked_fill masked_fill_ new_empty new_empty_strided
    new_full new_ones new_zeros ones ones_like pixel_shuffle pixel_unshuffle
    reflection_pad1d reflection_pad2d repeat replication_pad2d reshape_copy roll flip
    scalar_tensor scatter scatter_ select_backward select_scatter slice_backward slice_scatter
    split_with_sizes_copy stack take tril tril_ triu triu_ unfold_backward unfold_copy view_copy
    zero zero_ zeros zeros_like _unsafe_view _unsafe_index _unsafe_index_put col2im
    """

_FORMULAS: MappingProxyType[str, Callable[[Call], float]] = MappingProxyType(
    {
        **dict.fromkeys(_MOVEMENT.split(), _nothing),
        **dict.fromkeys(("mv", "dot", "vdot", "addmv", "addr", "ger"), _matrix_vector),
        **dict.fromkeys(("sort", "topk", "argsort", "kthvalue", "msort"), _n_log_n(1)),
        "convolution_backward": _convolution_backward,
        "_scaled_dot_product_flash_attention_for_cpu": _attention,
        "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
        "_native_multi_head_attention": _multi_head_attention,
        "_transformer_encoder_layer_fwd": _encoder_layer,
        "mkldnn_rnn_layer": _recurrent(1),
        "mkldnn_rnn_layer_backward": _recurrent(2),
    }
)
