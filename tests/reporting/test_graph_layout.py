"""The layout of graphs in pages."""

import numpy as np
import pytest

from regal_jax.graphs import precedence
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.reporting import graph_layout
from tests.policies.cases import random_graph


def chain(num_ops):
    return ComputationGraph.create(
        num_ops=num_ops,
        producer=np.arange(num_ops),
        size=np.arange(num_ops),
        consumers=[[i + 1] for i in range(num_ops - 1)] + [[]],
    )


@pytest.mark.parametrize("seed", range(5))
def test_layers_respect_edges_and_rows_do_not_collide(seed):
    graph = random_graph(seed)
    layout = graph_layout.layered(graph)
    pairs = graph.op_pairs
    assert np.all(layout.layer[pairs[:, 0]] < layout.layer[pairs[:, 1]])
    assert layout.layer.max() == precedence.levels(graph).max()
    for layer in np.unique(layout.layer):
        rows = np.sort(layout.row[layout.layer == layer])
        assert np.all(np.diff(rows) >= len(rows) ** -0.3 - 1e-9)
    np.testing.assert_array_equal(layout.row, graph_layout.layered(graph).row)


def test_a_chain_is_drawn_straight():
    layout = graph_layout.layered(chain(50))
    np.testing.assert_array_equal(layout.layer, np.arange(50))
    np.testing.assert_allclose(layout.row, 0.0)


def test_ops_that_only_wait_stand_next_to_their_consumers():
    graph = ComputationGraph.create(
        num_ops=5,
        producer=[0, 1, 2, 4],
        size=[1, 1, 1, 1],
        consumers=[[1], [2], [3], [3]],
    )
    np.testing.assert_array_equal(graph_layout.layered(graph).layer, [0, 1, 2, 3, 2])
