"""Floating-point operations of ONNX nodes, by formulas over shapes.

| ops | FLOPs |
|---|---|
| Conv, ConvInteger, QLinearConv, DeformConv | 2 * output elements * kernel positions * channels / groups |
| ConvTranspose | 2 * input elements * kernel positions * output channels / groups |
| MatMul, MatMulInteger, QLinearMatMul, Gemm | 2 * output elements * K |
| Einsum (without ellipsis) | 2 * product of the sizes of all labels |
| LSTM, GRU, RNN | 2 * steps * batch * directions * gates * hidden * (input + hidden), 4, 3, 1 gates |
| Attention | 4 * query elements * key length |
| pooling | output elements * window |
| Reduce*, Arg*, Cum*, Global* | input elements |
| Softmax family, *Normalization, LRN | 5 per output element |
| TopK, Unique | n log2 n, n the input elements |
| DFT, STFT | 5 n log2 n, n the output elements |
| data movement, shapes, constants, type changes, sequences | 0 |
| everything else | 1 per output element |
"""  # noqa: E501

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

Shape = Sequence[int]
Formula = Callable[[Sequence[Shape], Sequence[Shape], Mapping[str, Any]], float]


def node_flops(
    kind: str, inputs: Sequence[Shape], outputs: Sequence[Shape], attributes: Mapping[str, Any]
) -> int:
    """FLOPs of a node; 0 where a shape that its formula needs is missing or of another rank."""
    try:
        return round(_formula(kind)(inputs, outputs, attributes))
    except (IndexError, KeyError, ValueError):
        return 0


def _formula(kind: str) -> Formula:
    if kind in _FORMULAS:
        return _FORMULAS[kind]
    if kind.startswith(("Reduce", "Arg", "Cum", "Global")):
        return lambda inputs, outputs, attributes: math.prod(inputs[0])
    if kind.startswith(("Sequence", "Optional", "Split", "Scatter", "Gather")):
        return _nothing
    if kind.endswith(("Normalization", "Softmax")):
        return _five_per_element
    return lambda inputs, outputs, attributes: sum(math.prod(shape) for shape in outputs)


def _nothing(inputs: Sequence[Shape], outputs: Sequence[Shape], attributes: Mapping) -> float:
    return 0


def _five_per_element(
    inputs: Sequence[Shape], outputs: Sequence[Shape], attributes: Mapping
) -> float:
    return 5 * math.prod(outputs[0])


def _convolution(weight: int) -> Formula:
    """The weight, input number ``weight``, is [output channels, channels / groups, ...]."""
    return lambda inputs, outputs, _: 2 * math.prod(outputs[0]) * math.prod(inputs[weight][1:])


def _transposed_convolution(inputs: Sequence[Shape], outputs: Sequence[Shape], _: Mapping) -> float:
    return 2 * math.prod(inputs[0]) * math.prod(inputs[1][1:])


def _matmul(inputs: Sequence[Shape], outputs: Sequence[Shape], attributes: Mapping) -> float:
    return 2 * math.prod(outputs[0]) * inputs[0][-1]


def _gemm(inputs: Sequence[Shape], outputs: Sequence[Shape], attributes: Mapping) -> float:
    return 2 * math.prod(outputs[0]) * inputs[0][0 if attributes.get("transA") else 1]


def _einsum(inputs: Sequence[Shape], outputs: Sequence[Shape], attributes: Mapping) -> float:
    labels = attributes["equation"].decode().replace(" ", "").split("->")[0].split(",")
    sizes = {
        label: size
        for term, shape in zip(labels, inputs, strict=True)
        for label, size in zip(term, shape, strict=True)
    }
    return 2 * math.prod(sizes.values())


def _recurrent(inputs: Sequence[Shape], outputs: Sequence[Shape], attributes: Mapping) -> float:
    steps, batch, features = inputs[0]
    directions, gates_hidden, _ = inputs[1]
    return 2 * steps * batch * directions * gates_hidden * (features + inputs[2][2])


def _attention(inputs: Sequence[Shape], outputs: Sequence[Shape], attributes: Mapping) -> float:
    return 4 * math.prod(inputs[0]) * inputs[1][-2]


def _pooling(inputs: Sequence[Shape], outputs: Sequence[Shape], attributes: Mapping) -> float:
    return math.prod(outputs[0]) * math.prod(attributes["kernel_shape"])


def _sort(inputs: Sequence[Shape], outputs: Sequence[Shape], attributes: Mapping) -> float:
    elements = math.prod(inputs[0])
    return elements * math.log2(max(elements, 1))


def _fourier(inputs: Sequence[Shape], outputs: Sequence[Shape], attributes: Mapping) -> float:
    elements = math.prod(outputs[0])
    return 5 * elements * math.log2(max(elements, 1))


_MOVEMENT = """
    BitCast Cast CastLike CenterCropPad Col2Im Compress Concat ConcatFromSequence Constant
    ConstantOfShape DepthToSpace Expand EyeLike Flatten Identity NonZero OneHot Pad Range Reshape
    ReverseSequence Shape Size Slice SpaceToDepth Squeeze TensorScatter Tile Transpose Unsqueeze
    Upsample
""".split()  # noqa: SIM905

_FORMULAS: Mapping[str, Formula] = MappingProxyType(
    dict.fromkeys(_MOVEMENT, _nothing)
    | dict.fromkeys(("Conv", "ConvInteger", "DeformConv"), _convolution(1))
    | dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _matmul)
    | dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent)
    | dict.fromkeys(("AveragePool", "MaxPool", "LpPool"), _pooling)
    | dict.fromkeys(("TopK", "Unique"), _sort)
    | dict.fromkeys(("DFT", "STFT"), _fourier)
    | {
        "QLinearConv": _convolution(3),
        "ConvTranspose": _transposed_convolution,
        "Gemm": _gemm,
        "Einsum": _einsum,
        "Attention": _attention,
        "LRN": _five_per_element,
    }
)
