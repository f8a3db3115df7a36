"""Programs with checkpoints take and give what the plain ones do."""

import jax
import pytest

from regal_jax.datasets import jax_train_steps
from regal_jax.studies.compiler import checkpointed, side_by_side

NAME = "realnvp/training"


@pytest.mark.parametrize("method", checkpointed.METHODS)
def test_a_checkpointed_program_gives_the_results_of_the_plain_one(method):
    plain, one = jax_train_steps.program(NAME), checkpointed.program(NAME, method)
    args = plain.arguments()
    expected, found = plain.jitted()(*args), one.jitted()(*args)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    assert side_by_side.largest_difference(expected, found) < 1e-6
    text = str(jax.make_jaxpr(one.function)(*args))
    assert "remat" in text or "checkpoint" in text


def test_layers_that_cannot_be_checkpointed_give_nothing():
    assert checkpointed.program("lstm/training*2", checkpointed.BY_LAYER) is None
