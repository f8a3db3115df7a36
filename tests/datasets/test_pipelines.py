"""Pipelines: their ops, tensors and order."""

import numpy as np
import pytest

from regal_jax.datasets.pipelines import op_name, pipeline
from regal_jax.errors import OptionError


def tensors(graph):
    """(producer, size, readers) of each tensor, by names of ops."""
    names = (*graph.op_names, None)
    return sorted(
        (str(names[graph.producer[t]]), int(graph.size[t]), [names[c] for c in readers])
        for t, readers in enumerate(map(graph.consumers.row, range(graph.num_tensors)))
    )


def test_two_stages_and_one_microbatch_by_hand():
    graph = pipeline(2, 1, activation_bytes=10, kept_bytes=7, weight_bytes=5, boundary_bytes=3)
    assert graph.op_names == ("F(0,0)", "F(1,0)", "B(1,0)", "W(1,0)", "B(0,0)", "W(0,0)")
    assert graph.op_kinds[1:4] == ("forward", "backward", "weight_gradient")
    assert tensors(graph) == [
        ("B(0,0)", 0, ["W(0,0)"]),
        ("B(1,0)", 0, ["W(1,0)"]),
        ("B(1,0)", 3, ["B(0,0)"]),
        ("F(0,0)", 3, ["B(0,0)"]),
        ("F(0,0)", 3, ["F(1,0)"]),
        ("F(0,0)", 7, ["B(0,0)", "W(0,0)"]),
        ("F(1,0)", 3, ["B(1,0)"]),
        ("F(1,0)", 7, ["B(1,0)", "W(1,0)"]),
        ("None", 5, ["F(0,0)", "B(0,0)"]),
        ("None", 5, ["F(1,0)", "B(1,0)"]),
        ("None", 5, ["W(0,0)"]),
        ("None", 5, ["W(1,0)"]),
    ]
    assert graph.persistent.sum() == 4
    assert graph.extra["tensors"]["role"].count("gradient") == 2
    assert graph.extra["ops"]["stage"] == [0, 1, 1, 1, 0, 0]
    assert graph.extra["ops"]["phase"] == ["forward"] * 2 + ["backward"] * 4


@pytest.mark.parametrize(("stages", "microbatches"), [(1, 1), (1, 4), (3, 1), (4, 5)])
@pytest.mark.parametrize("split", [True, False])
def test_sizes_times_and_program_order(stages, microbatches, split):
    graph = pipeline(
        stages,
        microbatches,
        forward=2.0,
        backward=3.0,
        weight_gradient=4.0,
        activation_bytes=8,
        split_backward=split,
    )
    assert graph.num_ops == (3 if split else 2) * stages * microbatches
    assert graph.duration.sum() == 9.0 * stages * microbatches
    assert np.all(graph.edges[:, 0] < graph.edges[:, 2])
    assert len(set(graph.op_names)) == graph.num_ops
    assert op_name("B", stages - 1, 0) in graph.op_names
    assert graph.size.sum() == 8 * stages * microbatches


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0, 1), "needs a stage"), ((1, 0), "needs a stage"), ((1, 1), "kept_bytes is 5")],
)
def test_bad_arguments(arguments, message):
    kept = 5 if message.startswith("kept") else None
    with pytest.raises(OptionError, match=message):
        pipeline(*arguments, activation_bytes=4, kept_bytes=kept)
