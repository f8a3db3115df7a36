"""Networks of searched or random cells: RandWire, DARTS, NASNet, AmoebaNet, random DAGs."""

import itertools
import random

import flax.linen as nn
import jax.numpy as jnp

from regal_jax.datasets.zoo.recipes.flax_families import Family
from regal_jax.datasets.zoo.recipes.flax_layers import (
    Classifier,
    ConvNorm,
    SeparableConv,
    block,
    identity,
)

SMALL = ((32, 32, 32, 3),)
IMAGES = ((16, 128, 128, 3),)

Cell = tuple[tuple[tuple[str, int], tuple[str, int]], ...]
"""Each node sums two operations on earlier states: their names and the states' numbers."""


class WeightedSum(nn.Module):
    """Inputs summed with learned weights between 0 and 1."""

    @nn.compact
    def __call__(self, values):
        if len(values) == 1:
            return values[0]
        weights = nn.sigmoid(self.param("weights", nn.initializers.zeros, (len(values),)))
        return sum(weights[i] * value for i, value in enumerate(values))


class RandomStage(nn.Module):
    """A random graph of separable convolutions, its edges directed from low to high numbers.

    Nodes sum their inputs with learned weights. The generators are those of "Exploring Randomly
    Wired Neural Networks" (Xie et al., 2019).
    """

    generator: str
    nodes: int
    seed: int
    features: int

    @nn.compact
    def __call__(self, x):
        sources = _sources(self.generator, self.nodes, self.seed)
        values: list = []
        for reads in sources:
            strides = 1 if reads else 2
            value = WeightedSum()([values[i] for i in reads]) if reads else x
            values.append(SeparableConv(self.features, strides=strides)(value))
        read = set(itertools.chain(*sources))
        ends = [value for index, value in enumerate(values) if index not in read]
        return sum(ends) / len(ends)


class RandWire(nn.Module):
    """A random graph between two convolutions."""

    generator: str
    nodes: int
    seed: int
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        x = ConvNorm(32, 3, 2)(x)
        x = block(RandomStage, self.remat)(self.generator, self.nodes, self.seed, 64)(x)
        return Classifier()(ConvNorm(1280, 1)(x))


def _sources(generator: str, nodes: int, seed: int) -> list[list[int]]:
    """For each node the nodes it reads."""
    import networkx as nx

    graph = {
        "ws": lambda: nx.connected_watts_strogatz_graph(nodes, 4, 0.75, seed=seed),
        "ba": lambda: nx.barabasi_albert_graph(nodes, 5, seed=seed),
        "er": lambda: nx.gnp_random_graph(nodes, 0.2, seed=seed),
    }[generator]()
    return [sorted(other for other in graph[node] if other < node) for node in range(nodes)]


class Operation(nn.Module):
    """One of the operations that cells are made of."""

    kind: str
    features: int
    strides: int = 1

    @nn.compact
    def __call__(self, x):
        kind, _, size = self.kind.partition("_")
        kernel, strides = int(size or 1), self.strides
        if kind == "skip" and strides == 1:
            return x
        if kind == "sep":
            x = SeparableConv(self.features, kernel, strides)(x)
            return SeparableConv(self.features, kernel)(x)
        if kind == "dil":
            return SeparableConv(self.features, kernel, strides, dilation=2)(x)
        if kind in ("max", "avg"):
            pool = nn.max_pool if kind == "max" else nn.avg_pool
            return pool(x, (kernel, kernel), (strides, strides), "SAME")
        return ConvNorm(self.features, kernel, strides, activation=identity)(nn.relu(x))


class SearchedCell(nn.Module):
    """Reads the two cells before it; the result concatenates its unread nodes."""

    cell: Cell
    features: int
    strides: int = 1

    @nn.compact
    def __call__(self, before, last):
        stride = before.shape[1] // last.shape[1]
        states = [ConvNorm(self.features, 1, stride)(before), ConvNorm(self.features, 1)(last)]
        for pair in self.cell:
            parts = []
            for kind, source in pair:
                strides = self.strides if source < 2 else 1
                parts.append(Operation(kind, self.features, strides)(states[source]))
            states.append(parts[0] + parts[1])
        read = {source for pair in self.cell for _, source in pair}
        unread = [states[i] for i in range(2, len(states)) if i not in read]
        return jnp.concatenate(unread, axis=-1)


class CellNet(nn.Module):
    """Normal cells with a reduction cell at each third, after DARTS and NASNet."""

    normal: Cell
    reduction: Cell
    cells: int
    features: int = 36
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        before = last = ConvNorm(3 * self.features)(x)
        features = self.features
        for index in range(self.cells):
            reduces = index in (self.cells // 3, 2 * self.cells // 3)
            features *= 2 if reduces else 1
            cell, strides = (self.reduction, 2) if reduces else (self.normal, 1)
            made = block(SearchedCell, self.remat)(cell, features, strides)(before, last)
            before, last = last, made
        return [Classifier(10)(last)]


DARTS: tuple[Cell, Cell] = (
    ((("sep_3", 0), ("sep_3", 1)), (("sep_3", 0), ("sep_3", 1)),
     (("sep_3", 1), ("skip", 0)), (("skip", 0), ("dil_3", 2))),
    ((("max_3", 0), ("max_3", 1)), (("skip", 2), ("max_3", 1)),
     (("max_3", 0), ("skip", 2)), (("skip", 2), ("max_3", 1))),
)  # fmt: skip
"""The second-order cell of "DARTS" (Liu et al., 2019)."""

NASNET: tuple[Cell, Cell] = (
    ((("sep_5", 1), ("sep_3", 0)), (("sep_5", 0), ("sep_3", 0)), (("avg_3", 1), ("skip", 0)),
     (("avg_3", 0), ("avg_3", 0)), (("sep_3", 1), ("skip", 1))),
    ((("sep_5", 1), ("sep_7", 0)), (("max_3", 1), ("sep_7", 0)), (("avg_3", 1), ("sep_5", 0)),
     (("skip", 3), ("avg_3", 2)), (("sep_3", 2), ("max_3", 1))),
)  # fmt: skip
"""NASNet-A (Zoph et al., 2018)."""

AMOEBANET: tuple[Cell, Cell] = (
    ((("avg_3", 0), ("max_3", 1)), (("sep_3", 0), ("sep_5", 2)), (("sep_3", 0), ("avg_3", 3)),
     (("sep_3", 1), ("skip", 1)), (("skip", 0), ("avg_3", 1))),
    ((("avg_3", 0), ("sep_3", 1)), (("max_3", 0), ("sep_7", 2)), (("sep_7", 0), ("avg_3", 1)),
     (("max_3", 0), ("max_3", 1)), (("conv_1", 0), ("sep_3", 5))),
)  # fmt: skip
"""After AmoebaNet-A (Real et al., 2019)."""

_KINDS = ("sep_3", "sep_5", "sep_7", "dil_3", "dil_5", "max_3", "avg_3", "conv_1", "conv_3", "skip")


def random_cells(nodes: int, seed: int) -> tuple[Cell, Cell]:
    """A normal and a reduction cell of random operations on random earlier states."""
    chance = random.Random(seed)

    def pair(states: int) -> tuple[tuple[str, int], tuple[str, int]]:
        first, second = ((chance.choice(_KINDS), chance.randrange(states)) for _ in range(2))
        return first, second

    normal, reduction = (tuple(pair(2 + i) for i in range(nodes)) for _ in range(2))
    return normal, reduction


EDGE_KINDS = ("sep_3", "dil_3", "max_3", "avg_3", "skip")


class MixedEdges(nn.Module):
    """A cell of the DARTS search: every edge runs all operations and weighs their results."""

    nodes: int
    features: int

    @nn.compact
    def __call__(self, before, last):
        states = [ConvNorm(self.features, 1)(before), ConvNorm(self.features, 1)(last)]
        for node in range(self.nodes):
            edges = [self._mixed(f"{node}_{i}", state) for i, state in enumerate(states)]
            states.append(sum(edges))
        return jnp.concatenate(states[2:], axis=-1)

    def _mixed(self, name, x):
        scores = self.param(f"edge_{name}", nn.initializers.zeros, (len(EDGE_KINDS),))
        weights = nn.softmax(scores)
        parts = [Operation(kind, self.features)(x) for kind in EDGE_KINDS]
        return sum(weights[i] * part for i, part in enumerate(parts))


class SuperNet(nn.Module):
    """The network in which DARTS searches: cells whose edges mix all operations."""

    cells: int
    nodes: int
    remat: bool = False

    @nn.compact
    def __call__(self, x):
        before = last = ConvNorm(48)(x)
        for _ in range(self.cells):
            cell = block(MixedEdges, self.remat)(self.nodes, 16)
            before, last = last, cell(before, last)
        return Classifier(10)(last)


def _wired(generator: str, *sizes: tuple[int, int]) -> list[dict]:
    return [{"generator": generator, "nodes": nodes, "seed": seed} for nodes, seed in sizes]


def _celled(cells: tuple[Cell, Cell], *counts: int) -> list[dict]:
    return [{"normal": cells[0], "reduction": cells[1], "cells": count} for count in counts]


FAMILIES = (
    Family("randwire_ws", RandWire, IMAGES, _wired("ws", (10, 1), (16, 2))),
    Family("randwire_ba", RandWire, IMAGES, _wired("ba", (10, 1), (16, 2))),
    Family("randwire_er", RandWire, IMAGES, _wired("er", (10, 1), (16, 2))),
    Family("darts", CellNet, SMALL, _celled(DARTS, 2, 3)),
    Family("nasnet", CellNet, SMALL, _celled(NASNET, 1, 2)),
    Family("amoebanet", CellNet, SMALL, _celled(AMOEBANET, 1, 2)),
    Family("random_cells", CellNet, SMALL, [
        *_celled(random_cells(4, 1), 2), *_celled(random_cells(5, 2), 2),
    ]),
    Family("supernet", SuperNet, SMALL, [{"cells": 1, "nodes": 2}, {"cells": 1, "nodes": 3}]),
)  # fmt: skip
