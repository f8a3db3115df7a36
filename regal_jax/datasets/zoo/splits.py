"""Which graphs are for training, which to choose settings on, and which for testing."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from regal_jax.datasets.zoo.card import card
from regal_jax.graphs.computation_graph import ComputationGraph

SPLITS = ("train", "valid", "test")

Rule = Callable[[Sequence[ComputationGraph]], list[str]]


def splits(graphs: Sequence[ComputationGraph], rule: str = "architecture") -> list[str]:
    """The split of each graph, by one of RULES.

    - architecture: a family whose sha256("regal" + family) mod 100 is below 50 is for training,
      from 62 on for testing; and families of one architecture (``architecture``), whichever package
      they are from, are all where the first of them is: training before validation before testing.
      Families of the shipped zoo count, too, since shipped policies have seen them.
    - paper: graphs sorted by size, of every five three, one and one (REGAL, A.1); it puts variants
      of one architecture on both sides.
    - source: XLA, ONNX and TensorFlow graphs are for testing.
    - size: graphs of 2,000 ops or more are. This and the last validate by architecture.
    """
    return RULES[rule](graphs)


def architecture(family: str) -> str:
    """The name of a family's architecture: that of ``hf/ConvNext-V2`` is ``convnextv2``."""
    return re.sub(r"[\W_]", "", family.rsplit("/", 1)[-1].lower()) or family


def family_bucket(family: str) -> int:
    """0..99, from the name of an architecture family alone."""
    return name_hash(family) % 100


def name_hash(name: str) -> int:
    """A number that depends on a name alone, the same everywhere."""
    return int(hashlib.sha256(f"regal{name}".encode()).hexdigest(), 16)


def _by_architecture(graphs: Sequence[ComputationGraph]) -> list[str]:
    families = {graph.family for graph in graphs} | {row["family"] for row in card()}
    own: dict[str, str] = {}
    for family in families:
        split, name = _of_bucket(family_bucket(family)), architecture(family)
        own[name] = min(split, own.get(name, split), key=SPLITS.index)
    return [own[architecture(graph.family)] for graph in graphs]


def _of_bucket(bucket: int) -> str:
    return "train" if bucket < 50 else "valid" if bucket < 62 else "test"


def _as_in_the_paper(graphs: Sequence[ComputationGraph]) -> list[str]:
    ranked = sorted(range(len(graphs)), key=lambda i: (graphs[i].num_ops, graphs[i].name))
    splits = [""] * len(graphs)
    for place, index in enumerate(ranked):
        splits[index] = ("train", "train", "train", "valid", "test")[place % 5]
    return splits


def _by_source(graphs: Sequence[ComputationGraph]) -> list[str]:
    outside = ("xla", "onnx", "tensorflow", "pypi")
    return _test_where([graph.source.startswith(outside) for graph in graphs], graphs)


def _test_where(is_test: Sequence[bool], graphs: Sequence[ComputationGraph]) -> list[str]:
    """Test where told; of the rest the validation families validate, all others train."""
    rest = ["valid" if split == "valid" else "train" for split in _by_architecture(graphs)]
    return ["test" if test else own for test, own in zip(is_test, rest, strict=True)]


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "architecture": _by_architecture,
        "paper": _as_in_the_paper,
        "source": _by_source,
        "size": lambda graphs: _test_where([graph.num_ops >= 2000 for graph in graphs], graphs),
    }
)
