"""Random numbers in compiled kernels; the state is uint64[1]."""

import numpy as np

from regal_jax.native.compilation import inlined


@inlined
def below(state, count):
    """A random number in 0..count - 1: splitmix64 (Steele, Lea and Flood, 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    bits = state[0]
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return np.int64(np.float64(bits >> np.uint64(11)) * 2.0**-53 * count)
