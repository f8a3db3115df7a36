"""Which ops work row by row of the batch, by their kinds.

A tensor has rows if its leading (batch) dimension is the model's. An op is row-wise if row i of its
outputs needs only row i of its inputs that have rows, and all of what has none. Shapes aren't
known, so kinds decide (``RULES``), with what an op reads:

| rule | kinds | row-wise if |
|---|---|---|
| rows | elementwise, softmax, layer and group norm, pooling, attention, ... | an input has rows |
| product | matrix products, convolutions | one input has rows, others are constants |
| lookup | embeddings | as a product, and a constant is larger than what has rows |
| statistics | batch norm | an input has rows, and all outputs but the first are empty (inference) |
| gradients | backward passes that also give weight gradients | never |

All else (sums and means, transposed products, reshapes, unknown kinds) is never row-wise, nor is
the phase "update", nor an op with an output of role "gradient". Constants don't depend on the
batch: parameters (``annotations.parameters``), scalar inputs and what is computed from constants
alone. Rows begin with the other inputs. Row-wise ops pass them on; of the rest, "statistics" and
"gradients" do with their first output; other outputs have none, which is safe.

Assumed: every input that is no scalar has the batch first; rows are never paired with rows (as in
a difference of all pairs); concatenation is of features. A product of two tensors with rows is
taken for a weight gradient, unless its kind says that it is done per row (``bmm``). In a graph
without roles whose inputs are persistent they look like parameters, and nothing is row-wise.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from regal_jax.graphs import annotations
from regal_jax.graphs.computation_graph import ComputationGraph, ragged_rows

Rule = Literal["rows", "product", "lookup", "statistics", "gradients"]

SCALAR_BYTES = 8
"""Inputs of at most so many bytes are scalars."""

_ROWS = """
    abs acos add add_any addcdiv addcmul and asin atan atan2 bitwise_and bitwise_not bitwise_or
    cbrt ceil celu celu_backward clamp clamp_max clamp_min clip clone convert_element_type copy cos
    cosh dequantize div elu elu_backward eq erf erf_inv erfc exp exp2 expm1 fill floor floor_divide
    fmod ge gelu gelu_backward glu glu_backward gt hardshrink hardsigmoid hardsigmoid_backward
    hardswish hardswish_backward hardtanh hardtanh_backward integer_pow is_finite isinf isnan le
    leaky_relu leaky_relu_backward lerp log log10 log1p log2 log_sigmoid_backward
    log_sigmoid_forward logical_and logical_not logical_or logistic lt masked_fill max_0 maximum
    minimum mish mish_backward mul ne neg not or pow quantize real reciprocal relu relu6
    remainder round rsqrt rsub select_n sigmoid sigmoid_backward sign silu silu_backward sin sinh
    softplus softplus_backward sqrt square sub tan tanh tanh_backward threshold threshold_backward
    _to_copy mse_loss_backward nll_loss_backward nll_loss2d_backward trunc where xor

    _softmax _softmax_backward_data _log_softmax _log_softmax_backward_data _safe_softmax
    native_layer_norm native_group_norm native_dropout native_dropout_backward _fused_rms_norm
    avg_pool1d avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward adaptive_avg_pool1d
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d
    _adaptive_avg_pool3d_backward adaptive_max_pool2d adaptive_max_pool2d_backward
    max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices
    max_pool3d_with_indices_backward reduce_window reduce_window_max reduce_window_min
    reduce_window_sum select_and_scatter_add upsample_bicubic2d upsample_bicubic2d_backward
    upsample_bilinear2d upsample_bilinear2d_backward upsample_linear1d upsample_linear1d_backward
    upsample_nearest1d upsample_nearest1d_backward upsample_nearest2d upsample_nearest2d_backward
    upsample_nearest3d upsample_nearest3d_backward upsample_trilinear3d
    upsample_trilinear3d_backward grid_sampler_2d grid_sampler_2d_backward im2col col2im
    pixel_shuffle pixel_unshuffle bmm baddbmm cat concatenate
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_attention_math

    Abs Add AveragePool Cast Ceil Clip Concat Cos Div Elu Equal Erf Exp Floor Gelu
    GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GroupNormalization HardSigmoid HardSwish
    InstanceNormalization LRN LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax Max
    MaxPool Min Mish Mul Neg Not PRelu Pow Reciprocal Relu Round Selu Sigmoid Sign Sin Softmax
    Softplus Softsign Sqrt Sub Sum Tanh ThresholdedRelu Where
"""

_PRODUCTS = """
    addmm mm matmul linear convolution conv1d conv2d conv3d _convolution mkldnn_convolution
    dot_general conv_general_dilated Conv ConvTranspose Gemm MatMul
"""

_LOOKUPS = "embedding gather take Gather"

_STATISTICS = """
    native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training
    _native_batch_norm_legit_functional _batch_norm_with_update cudnn_batch_norm miopen_batch_norm
    BatchNormalization
"""

_GRADIENTS = """
    convolution_backward native_batch_norm_backward cudnn_batch_norm_backward
    miopen_batch_norm_backward batch_norm_backward native_layer_norm_backward
    native_group_norm_backward _prelu_kernel_backward
"""

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(_ROWS.split(), "rows"),
        **dict.fromkeys(_PRODUCTS.split(), "product"),
        **dict.fromkeys(_LOOKUPS.split(), "lookup"),
        **dict.fromkeys(_STATISTICS.split(), "statistics"),
        **dict.fromkeys(_GRADIENTS.split(), "gradients"),
    }
)
"""ATen, jaxpr and ONNX kinds; a kind that isn't here is looked up without underscores at its end,
too (ATen's calls in place: ``relu_``)."""

CONSTANT, MIXED, ROWS = 0, 1, 2
"""What is known of a tensor: independent of the batch; dependent in any way; has rows."""


class RowWise(NamedTuple):
    """The ops that work row by row.

    Attributes:
      op: bool[O].
      whole_bytes: int64[O], bytes of the constants that every row of a row-wise op needs, else 0.
        Elementwise ops read constants as large as their outputs row by row.
    """

    op: np.ndarray
    whole_bytes: np.ndarray


def row_wise_ops(graph: ComputationGraph, rules: Mapping[str, Rule] = RULES) -> RowWise:
    """The row-wise ops of a graph; none in a graph without kinds."""
    rule = [_rule(kind, rules) for kind in graph.op_kinds] or [None] * graph.num_ops
    for op in np.flatnonzero(_never_split(graph)).tolist():
        rule[op] = "gradients" if rule[op] == "gradients" else None
    level = _initial_levels(graph)
    found = RowWise(np.zeros(graph.num_ops, bool), np.zeros(graph.num_ops, np.int64))
    pairs = annotations.in_place_writes(graph)
    written = ragged_rows(pairs[:, 1], pairs[:, 0], graph.num_ops)
    for op in graph.topological_order.tolist():
        inputs, outputs = graph.inputs.row(op), graph.outputs.row(op)
        read, made = graph.size[inputs], graph.size[outputs]
        found.op[op] = _is_row_wise(rule[op], made, read, level[inputs])
        if found.op[op]:
            constants = read[level[inputs] == CONSTANT]
            found.whole_bytes[op] = _whole_bytes(rule[op], constants, made)
        level[outputs] = _output_levels(rule[op], level[inputs], found.op[op], len(outputs))
        changed = written.row(op)
        changed = changed[graph.producer[changed] >= 0]
        level[changed] = np.maximum(level[changed], level[outputs].max(initial=CONSTANT))
    return found


def _rule(kind: str, rules: Mapping[str, Rule]) -> Rule | None:
    return rules.get(kind) or rules.get(kind.rstrip("_"))


def _never_split(graph: ComputationGraph) -> np.ndarray:
    """bool[O]: ops of the update, and those that make gradients of parameters."""
    gradient = annotations.has_role(graph, "gradient") & (graph.producer >= 0)
    never = annotations.in_phase(graph, "update")
    never[graph.producer[gradient]] = True
    return never


def _initial_levels(graph: ComputationGraph) -> np.ndarray:
    """int8[T]: constants and rows of what has no producer; MIXED for the rest."""
    constant = annotations.parameters(graph) | (graph.size <= SCALAR_BYTES)
    level = np.where(constant, CONSTANT, ROWS).astype(np.int8)
    level[graph.producer >= 0] = MIXED
    return level


def _is_row_wise(rule: Rule | None, made: np.ndarray, read: np.ndarray, level: np.ndarray) -> bool:
    """Whether an op is row-wise; it makes and reads so many bytes, at these levels."""
    if rule is None or rule == "gradients" or level.max(initial=CONSTANT) < ROWS:
        return False
    if rule == "rows":
        return True
    if rule == "statistics":
        return bool(np.all(made[1:] == 0))
    varying = (level > CONSTANT) & (read > 0)
    largest = read[level == CONSTANT].max(initial=0)
    if np.sum(varying) != 1 or level[varying][0] != ROWS or largest == 0:
        return False
    return rule == "product" or bool(largest > read[varying][0])


def _whole_bytes(rule: Rule | None, constants: np.ndarray, made: np.ndarray) -> int:
    if rule == "lookup":
        return 0
    if rule == "rows":
        constants = constants[constants < made.max(initial=0)]
    return int(constants.sum())


def _output_levels(
    rule: Rule | None, inputs: np.ndarray, row_wise: bool, num_outputs: int
) -> np.ndarray:
    """int8[outputs]: what is known of an op's outputs from the levels of its inputs."""
    dependent = inputs.max(initial=CONSTANT)
    level = np.full(num_outputs, min(dependent, MIXED), np.int8)
    if row_wise:
        level[:] = ROWS
    elif rule in ("statistics", "gradients") and dependent == ROWS:
        level[:1] = ROWS
    return level
