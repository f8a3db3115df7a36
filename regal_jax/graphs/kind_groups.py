"""Kinds of ops in few groups, by what they do, across the vocabularies of PyTorch, JAX, XLA, ONNX
and TensorFlow."""

import re

GROUPS = (
    "matrix, convolution",
    "normalisation, softmax",
    "data movement",
    "reduction, pooling",
    "creation, random",
    "fused, control",
    "elementwise, other",
)
"""Every group, in the order of legends; the last takes kinds that no pattern matches."""

_PATTERNS = (
    r"random_normal|random_uniform|^rand|randint|bernoulli|dropout",
    r"conv(?!ert)|mm(_|$)|matmul|gemm|dot|einsum|linear$|attention|rnn|lstm|gru(_|$|cell)",
    r"norm(?!al)|softmax|loss",
    r"cat|stack|slice|gather|scatter|index|embedding|pad|copy|clone|transpose|permute|reshape|view"
    r"|broadcast(?!grad)|expand|squeeze|^tile|repeat|roll|^pack|^split|resize|upsample|im2col"
    r"|col2im|grid_sampl|^rev|flip|cast|convert|strided|select_backward|^select$|unpool|take"
    r"|recv|send|all_reduce|all_gather|permutation",
    r"sum|mean|reduce|pool|prod|argm|amax|amin|topk|sort|histc|max_|biasaddgrad",
    r"zeros|ones|full|empty|iota|arange|range$|^fill|constant|random|shape|new_",
    r"fusion|call|while|scan|cond|custom|(^|_)if$|loop|pjit|remat",
)
_GROUP_OF_PATTERN = (4, 0, 1, 2, 3, 4, 5)


def group_of(kind: str) -> int:
    """The index into GROUPS of a kind of op, by the first pattern its name matches."""
    for pattern, group in zip(_PATTERNS, _GROUP_OF_PATTERN, strict=True):
        if re.search(pattern, kind.lower()):
            return group
    return len(GROUPS) - 1
