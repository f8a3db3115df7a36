"""What ops do, by the names of their kinds."""

import pytest

from regal_jax.graphs.kind_groups import GROUPS, group_of


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        ("convolution_backward", 0),
        ("dot_general", 0),
        ("MatMul", 0),
        ("addmm", 0),
        ("_scaled_dot_product_flash_attention_for_cpu", 0),
        ("native_batch_norm", 1),
        ("_softmax_backward_data", 1),
        ("convert_element_type", 2),
        ("constant_pad_nd", 2),
        ("broadcast_in_dim", 2),
        ("reduce_sum", 3),
        ("MaxPool", 3),
        ("random_normal", 4),
        ("zeros_like", 4),
        ("fusion", 5),
        ("while", 5),
        ("Relu", 6),
        ("mul", 6),
        ("", 6),
    ],
)
def test_groups_of_kinds(kind, group):
    assert GROUPS[group_of(kind)] == GROUPS[group]
