"""Floating-point operations and bytes of HLO instructions, those of fusions from their bodies.

| instructions | FLOPs |
|---|---|
| dot | 2 * output elements * contracted elements |
| convolution | 2 * output elements * kernel elements / output features / dilation of the input; padding is counted as if dense |
| custom-call of a matrix product (``matmul``, ``gemm``) | 2 * output elements * contracted elements |
| custom-call of a convolution (cuDNN's), or its gradient | as the convolution |
| fusion, call | those of the body |
| while | those of the body, times the trip count where it is known or seen |
| conditional | those of the largest branch |
| reduce | input elements |
| reduce-window, select-and-scatter | windows * window size |
| scatter | update elements |
| sort | n log2 n |
| fft | 5 n log2 n |
| data movement, constants, random bits, calls of unknown code | 0 |
| everything else | 1 per output element |

A library's workspace is no result, and no bytes. Bytes: operands and results, but of an operand that a fusion's body only slices or gathers from, what
these read; and of a dynamic-update-slice, alone or as what a fusion's body makes, twice the update in
place of the array. What starts asynchronously does all of it; its end is free.
"""  # noqa: E501

import math
import re
from collections.abc import Sequence

from regal_jax.graphs.importers.xla.text import (
    BODIES,
    Array,
    Computation,
    Instruction,
    Module,
    leaves,
    num_bytes,
    num_elements,
)
from regal_jax.graphs.importers.xla.trips import trip_count

_SLICES = ("slice", "dynamic-slice", "gather")
_UPDATE = "dynamic-update-slice"
_FUSIONS = ("fusion", "fusion-start")

_CALLS = ("call", "while", "conditional", "async-start")

_FREE = frozenset(
    """
    parameter constant tuple get-tuple-element bitcast bitcast-convert broadcast reshape transpose
    copy copy-start copy-done slice dynamic-slice dynamic-update-slice concatenate pad gather iota
    reverse convert after-all add-dependency opt-barrier optimization-barrier partition-id
    replica-id rng-bit-generator rng-get-and-update-state custom-call infeed outfeed send
    send-done recv recv-done all-gather all-to-all collective-permute domain get-dimension-size
    fusion-done
    """.split()  # noqa: SIM905
)


def instruction_flops(module: Module, computation: Computation, one: Instruction) -> float:
    """FLOPs of an instruction, its bodies included."""
    bodies = [module.computations[name] for name in called_bodies(module, one)]
    if bodies and one.opcode in (*_FUSIONS, *_CALLS):
        totals = [
            sum(instruction_flops(module, b, i) for i in b.instructions.values()) for b in bodies
        ]
        times = trip_count(module, computation, one) if one.opcode == "while" else None
        return max(totals) * (times or 1)
    return _own_flops(computation, one)


def called_bodies(module: Module, one: Instruction) -> list[str]:
    """Names of the computations that an instruction runs; not a while's condition."""
    names = one.called(*BODIES)
    return [name for name in names if name in module.computations]


def instruction_bytes(module: Module, computation: Computation, one: Instruction) -> int:
    """Bytes read and written; see the module's text."""
    operands = [computation.instructions[name] for name in one.operands]
    if one.opcode == _UPDATE:
        return 2 * num_bytes(operands[1].shape)
    if one.opcode in _SLICES:
        return 2 * num_bytes(one.shape)
    if one.opcode not in _FUSIONS:
        return sum(map(num_bytes, _results(one))) + sum(
            num_bytes(operand.shape) for operand in operands
        )
    body = module.computations[called_bodies(module, one)[0]]
    return _written(body) + sum(_read(body, index, one) for index, one in enumerate(operands))


def _written(body: Computation) -> int:
    """Bytes that a fusion's body writes."""
    return sum(
        num_bytes(_update(body, one).shape if one.opcode == _UPDATE else one.shape)
        for one in _made(body)
    )


def _made(body: Computation) -> list[Instruction]:
    """What a fusion's body makes, by what it has another name of."""
    root = body.instructions[body.root]
    made = root.operands if root.opcode == "tuple" else (root.name,)
    return [body.source(name, ("bitcast",)) for name in made]


def _update(body: Computation, one: Instruction) -> Instruction:
    return body.instructions[one.operands[1]]


def _read(body: Computation, index: int, operand: Instruction) -> int:
    """Bytes of an operand that a fusion's body reads."""
    number, every = str(index), body.instructions.values()
    names = {o.name for o in every if o.opcode == "parameter" and o.arguments.strip() == number}
    for one in every:  # operands come first
        if one.opcode == "bitcast" and one.operands[0] in names:
            names.add(one.name)
    users = [one for one in every if one.name not in names and not names.isdisjoint(one.operands)]
    of_it = [one.operands[0] in names and names.isdisjoint(one.operands[1:]) for one in users]
    if not users or not all(of_it):
        return num_bytes(operand.shape)
    if all(one.opcode in _SLICES for one in users):
        return min(num_bytes(operand.shape), sum(num_bytes(one.shape) for one in users))
    made = [one.name for one in _made(body)]
    is_updated = all(one.opcode == _UPDATE and one.name in made for one in users)
    return 0 if is_updated else num_bytes(operand.shape)


def _own_flops(computation: Computation, one: Instruction) -> float:
    shapes = [computation.instructions[name].shape for name in one.operands]
    arrays = [next(leaves(shape), Array("token", ())) for shape in shapes]
    output = num_elements(one.shape)
    if one.opcode == "dot":
        contracted = one.attribute("lhs_contracting_dims") or ""
        return 2 * output * math.prod(arrays[0].dims[int(d)] for d in contracted.split(",") if d)
    if one.opcode == "convolution":
        return _convolution(one, output, arrays[1]) / _dilation(one)
    if one.opcode == "custom-call":
        return _library_flops(one, arrays)
    if one.opcode in ("reduce", "all-reduce", "reduce-scatter"):
        return num_elements(tuple(shapes[: max(len(shapes) // 2, 1)]))
    if one.opcode in ("reduce-window", "select-and-scatter"):
        size = re.search(r"size=([\dx]+)", one.attributes)
        window = math.prod(int(n) for n in size.group(1).split("x")) if size else 1
        windows = output if one.opcode == "reduce-window" else arrays[1].elements
        return windows * window
    if one.opcode == "scatter":
        return num_elements(shapes[-1])
    if one.opcode in ("sort", "fft"):
        elements = max([array.elements for array in arrays], default=1)
        return (1 if one.opcode == "sort" else 5) * elements * math.log2(max(elements, 2))
    return 0 if one.opcode in _FREE else output


def _library_flops(one: Instruction, arrays: Sequence[Array]) -> float:
    """FLOPs of a call of a library that is known, else 0."""
    target, (result, *_) = one.attribute("custom_call_target") or "", _results(one)
    if len(arrays) < 2:
        return 0
    if re.search("matmul|gemm", target, re.IGNORECASE):
        stated = re.search(r'lhs_contracting_dimensions":\[([^\]]*)', one.attributes)
        places = [int(place) for place in re.findall(r"\d+", stated[1])] if stated else [-1]
        return 2 * result.elements * math.prod(arrays[0].dims[place] for place in places)
    if "$convBackwardFilter" in target:
        return _convolution(one, arrays[1].elements, result)
    if "$convBackwardInput" in target:
        return _convolution(one, arrays[0].elements, arrays[1])
    if "$conv" in target:
        return _convolution(one, result.elements, arrays[1])
    return 0


def _results(one: Instruction) -> list[Array]:
    """The arrays that an instruction makes, without the workspace of cuDNN and cuBLAS."""
    arrays = list(leaves(one.shape))
    is_library = (one.attribute("custom_call_target") or "").startswith("__cu")
    if is_library and len(arrays) > 1 and arrays[-1].dtype in ("s8", "u8"):
        arrays.pop()
    return arrays


def _convolution(one: Instruction, output: int, kernel: Array) -> float:
    """FLOPs, by the elements of the output of the forward one."""
    return 2 * output * kernel.elements / _output_features(one, kernel)


def _dilation(one: Instruction) -> int:
    """How many elements of the dilated input there are for one that isn't zero."""
    match = re.search(r"lhs_dilate=([\dx]+)", one.attributes)
    return math.prod(int(n) for n in match.group(1).split("x")) if match else 1


def _output_features(one: Instruction, kernel: Array) -> int:
    """The size of the kernel's output feature dimension, by ``dim_labels=b01f_01io->b01f``."""
    match = re.search(r"dim_labels=\w+?_(\w+)->", one.attributes)
    place = match.group(1).find("o") if match else -1
    return max(kernel.dims[place], 1) if place >= 0 else 1
