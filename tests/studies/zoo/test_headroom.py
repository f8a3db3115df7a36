"""What the card of the model zoo says of a graph."""

import numpy as np

import regal_jax as rj
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.studies.zoo import card, headroom
from tests.policies.cases import chain, random_graph


def diamond():
    """Two branches: a large tensor that shrinks at once, and a small one that grows late.

    Op 0 makes 8 bytes for ops 1 and 2, which make 100 bytes each; ops 3 and 4 shrink them to 1;
    op 5 joins. In program order both large tensors live together.
    """
    return ComputationGraph.create(
        num_ops=6,
        producer=[0, 1, 2, 3, 4, 5],
        size=[8, 100, 100, 1, 1, 1],
        consumers=[[1, 2], [3], [4], [5], [5], []],
        name="diamond",
        source="hand-1.0/inference",
    )


def test_headroom_on_one_device_by_hand():
    row = headroom.measure(diamond(), evaluations=lambda ops: 300, max_ops=100)
    assert row["program_d1"] == 208  # both large tensors and op 0's, while op 2 runs
    assert row["best_d1"] == 109  # one branch first: op 0's, the small result, the other large one
    assert row["headroom_d1"] == round(100 * (208 / 109 - 1), 3)
    assert row["rule_d1"] == "depth_first"


def test_columns_are_those_of_the_card_and_ordered_by_quality():
    graph = random_graph(3).replace(source="x-1/training", family="f")
    row = headroom.structure(graph, "train")
    row |= headroom.measure(graph, evaluations=lambda ops: 300, max_ops=100)
    assert set(row) == set(card.COLUMNS)
    assert card.check_rows([row])[0]["mode"] == "training"
    for setting in headroom.SETTINGS:
        values = [row[f"{c}_{setting}"] for c in ("bound", "best", "cheap", "program")]
        assert values[0] <= values[1] <= min(values[2:])


def test_settings_too_large_to_search_are_left_out():
    row = headroom.measure(chain(6), evaluations=lambda ops: 100, max_ops=8)
    assert "best_d2" in row
    assert "best_d2m4" not in row


def test_settings_are_those_of_the_card():
    assert set(headroom.SETTINGS) == set(card.SETTINGS)


def test_program_order_is_what_the_checker_says():
    graph = diamond()
    schedule = rj.optimize(graph, num_devices=1, method="depth_first")
    row = headroom.measure(graph, evaluations=lambda ops: 100, max_ops=10)
    assert row["cheap_d1"] == int(np.max(rj.evaluate(graph, schedule).peak_memory))
