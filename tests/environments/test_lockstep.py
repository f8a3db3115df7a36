import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.environments.lockstep import anywhere


def counted(limit):
    """Counts to a limit; rounds after that are counted, too."""

    def more(state):
        return anywhere(state[0] < limit)

    def run(state):
        count, rounds = state
        return count + (count < limit), rounds + 1

    return jax.lax.while_loop(more, run, (jnp.int32(0), jnp.int32(0)))


def test_all_go_on_until_the_last_is_done():
    assert counted(3) == (3, 3)
    limits = jnp.array([[0, 2], [5, 1]])
    count, rounds = jax.jit(jax.vmap(jax.vmap(counted)))(limits)
    np.testing.assert_array_equal(count, limits)
    np.testing.assert_array_equal(rounds, 5)
