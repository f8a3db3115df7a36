"""Ratios of benchmarks: rows that say what they depend on, and their table."""

from regal_jax.studies.comparison import peers
from tests.policies.cases import random_graph


def test_a_line_a_graph_and_a_column_a_peer():
    first, second = (random_graph(seed, num_ops=5).replace(name=f"g{seed}") for seed in (1, 2))
    rows = [
        *peers.rows("cost", first, {"C++": 1.25, "JAX": 12.0}, 2, {"batch": 100}),
        *peers.rows("cost", second, {"C++": 1.5}, 2, {"batch": 100}),
    ]
    caption, table = peers.page(rows).split("\n\n", 1)
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert caption == "Times of others over ours:"
    assert lines[0] == ["what", "graph", "ops", "cores", "C++", "JAX"]
    assert lines[2:] == [
        ["cost", "`g1`", "5", "2", "1.25", "12"],
        ["cost", "`g2`", "5", "2", "1.5", ""],
    ]


def test_keys_say_what_was_timed():
    graph = random_graph(0, num_ops=5)
    keys = {
        peers.rows(name, graph, {"C++": 1.0}, 2, {"batch": batch})[0]["key"]
        for name, batch in (("cost", 100), ("cost", 10), ("search", 100))
    }
    assert len(keys) == 3
