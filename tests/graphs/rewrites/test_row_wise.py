"""Row-wise ops by kinds and by what they read."""

import numpy as np
import pytest

from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.rewrites.row_wise import RULES, row_wise_ops


def chain(*steps, role=("input",), size=(64,), phase="forward", final="output"):
    """A graph of (kind, inputs, output bytes...) steps; inputs are numbers of tensors."""
    producer, sizes, readers = [-1] * len(role), list(size), [[] for _ in role]
    for op, (_, inputs, *outputs) in enumerate(steps):
        for tensor in inputs:
            readers[tensor].append(op)
        producer += [op] * len(outputs)
        sizes += outputs
        readers += [[] for _ in outputs]
    roles = [*role, *[""] * (len(sizes) - len(role) - 1), final]
    return ComputationGraph.create(
        num_ops=len(steps),
        producer=producer,
        size=sizes,
        persistent=[p < 0 for p in producer],
        consumers=readers,
        op_kinds=[kind for kind, *_ in steps],
        extra={"tensors": {"role": roles}, "ops": {"phase": [phase] * len(steps)}},
    )


def split(graph, **options):
    return row_wise_ops(graph, **options).op.tolist()


WEIGHTED = {"role": ("input", "parameter"), "size": (64, 200)}


@pytest.mark.parametrize("kind", ["relu", "relu_", "add", "_softmax", "tanh", "Relu", "bmm"])
def test_elementwise_kinds_need_rows(kind):
    assert split(chain((kind, [0], 64))) == [True]
    assert split(chain((kind, [0], 64), role=("parameter",))) == [False]
    assert split(chain((kind, [0], 8), size=(8,))) == [False]  # a scalar


@pytest.mark.parametrize("kind", ["mm", "addmm", "convolution", "dot_general", "Conv"])
def test_products_need_one_side_without_rows(kind):
    assert split(chain((kind, [0, 1], 64), **WEIGHTED)) == [True]
    assert split(chain((kind, [0, 1], 64), role=("input", "input"), size=(64, 64))) == [False]
    assert split(chain((kind, [0], 64))) == [False]


def test_weight_gradients_and_updates_stay_whole():
    backward = chain(("relu", [0], 64), ("mm", [2, 1], 64), ("mm", [2, 3], 200), **WEIGHTED)
    assert split(backward) == [True, True, False]
    assert split(chain(("add", [0], 64), final="gradient")) == [False]
    assert split(chain(("add", [0], 64), phase="update")) == [False]


def test_lookups_read_a_table():
    assert split(chain(("embedding", [0, 1], 64), **WEIGHTED)) == [True]
    assert split(chain(("gather", [0, 1], 64), role=WEIGHTED["role"], size=(64, 16))) == [False]


def test_batch_norm_is_row_wise_without_statistics():
    norm = ("native_batch_norm", [0, 1])
    assert split(chain((*norm, 64, 0, 0), **WEIGHTED)) == [True]
    training = chain((*norm, 64, 8, 8), ("relu", [2], 64), ("relu", [3], 8), **WEIGHTED)
    assert split(training) == [False, True, False]


def test_reductions_end_rows_and_constants_stay_constants():
    assert split(chain(("sum", [0], 16), ("relu", [1], 16), ("add", [0, 1], 64))) == [0, 0, 1]
    cast = chain(("_to_copy", [1], 100), ("mm", [0, 2], 64), **WEIGHTED)
    assert split(cast) == [False, True]


def test_a_buffer_has_rows_once_it_is_written_by_rows():
    """Zeros; copied into in place (tensors 1 and 2: buffer, version); read with its version."""
    buffer = chain(("zeros", [], 64), ("copy_", [1, 0], 0), ("relu", [1, 2], 64))
    assert split(buffer) == [False, True, True]


def test_whole_bytes():
    graph = chain(("mm", [0, 1], 64), ("add", [2, 1], 64), ("mul", [3, 0], 300), **WEIGHTED)
    np.testing.assert_array_equal(row_wise_ops(graph).whole_bytes, [200, 0, 0])
    bias = chain(("add", [0, 1], 64), role=WEIGHTED["role"], size=(64, 16))
    np.testing.assert_array_equal(row_wise_ops(bias).whole_bytes, [16])


def test_own_rules_and_no_kinds():
    graph = chain(("mine", [0], 64))
    assert split(graph) == [False]
    assert split(graph, rules={**RULES, "mine": "rows"}) == [True]
    assert split(graph.replace(op_kinds=())) == [False]
