"""Chromosomes: their layout, and that encoding a schedule keeps it."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments.placement import chromosome as placement_chromosome
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Schedule
from regal_jax.graphs.computation_graph import ComputationGraph
from tests.strategies import computation_graphs

SIZES = st.tuples(st.integers(1, 6), st.integers(0, 6), st.integers(1, 4))


def test_layout_by_hand():
    """O = 2, T = 1, D = 3."""
    genes = placement_chromosome.split(np.arange(11, dtype=np.float32), 2, 3)
    assert genes.affinity.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert genes.op_priority.tolist() == [6, 7]
    assert genes.transfer_priority.tolist() == [[8, 9, 10]]
    assert placement_chromosome.num_genes(2, 1, 3) == 11


@given(SIZES)
def test_join_reverses_split(sizes):
    num_ops, num_tensors, num_devices = sizes
    count = placement_chromosome.num_genes(*sizes)
    chromosome = np.arange(count, dtype=np.float32)
    genes = placement_chromosome.split(chromosome, num_ops, num_devices)
    assert genes.affinity.shape == (num_ops, num_devices)
    assert genes.op_priority.shape == (num_ops,)
    assert genes.transfer_priority.shape == (num_tensors, num_devices)
    assert placement_chromosome.join(genes).tolist() == chromosome.tolist()


def test_placement_takes_the_lowest_device_on_ties():
    affinity = np.array([[1, 1, 0], [0, 2, 2], [-0.0, 0.0, 0.0], [0.0, -0.0, 1]], np.float32)
    genes = placement_chromosome.Genes(affinity, np.zeros(4), np.zeros((0, 3)))
    assert placement_chromosome.placement(genes).tolist() == [0, 1, 0, 2]
    assert jax.jit(placement_chromosome.placement)(genes).tolist() == [0, 1, 0, 2]


@given(SIZES, SIZES)
def test_pad_places_each_block_and_unpad_reverses_it(sizes, more):
    num_ops, num_tensors, num_devices = sizes
    wide = (num_ops + more[0], num_tensors + more[1])
    genes = np.random.default_rng(0).random((3, placement_chromosome.num_genes(*sizes)), np.float32)
    padded = placement_chromosome.pad(genes, sizes[:2], wide, num_devices)
    assert padded.dtype == np.float32
    for row, chromosome in zip(padded, genes, strict=True):
        parts = placement_chromosome.split(row, wide[0], num_devices)
        old = placement_chromosome.split(chromosome, num_ops, num_devices)
        for part, expected in zip(parts, old, strict=True):
            np.testing.assert_array_equal(part[: len(expected)], expected)
            assert not np.any(part[len(expected) :])
    np.testing.assert_array_equal(
        placement_chromosome.unpad(padded, sizes[:2], wide, num_devices), genes
    )


@settings(max_examples=300)
@given(graph=computation_graphs(), num_devices=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_decode_reverses_encode(graph, num_devices, seed):
    problem = PlacementProblem(graph, num_devices)
    genes = np.random.default_rng(seed).random(problem.num_genes, np.float32)
    schedule = problem.decode(genes)
    chromosome = problem.encode(schedule)
    assert (chromosome.dtype, len(chromosome)) == (np.float32, problem.num_genes)
    assert problem.decode(chromosome) == schedule


@pytest.mark.parametrize("count", [1, 2, 2**20])
def test_encoded_priorities_are_distinct_and_fall(count):
    graph = ComputationGraph.create(num_ops=count, producer=[], size=[], consumers=[])
    schedule = Schedule(
        graph="",
        objective="peak_memory",
        num_devices=1,
        placement=np.zeros(count, np.int32),
        steps=np.arange(count)[::-1].astype(np.int64),
    )
    priority = placement_chromosome.encode(schedule, graph)[count:]
    assert np.all(np.diff(priority) > 0)
