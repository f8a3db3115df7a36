"""The compiled CPU kernels of machine problems, numba: priorities to start times.

``batch`` calls them from Python, ``ffi`` from inside jitted programs. Each generation is a module
of its own, because compiling one takes seconds. Its ``evaluate`` takes

- packed: the address of a packed graph;
- genes: the address of the genes, float32, and shape: (rows, genes);
- scratch: the address of ``scratch_words`` words;
- results: the addresses of makespans float64[rows], of makespans float32[rows] and of start times
  float64[rows, O]; 0 for those that aren't wanted.

All arrays lie in C order.
"""

from regal_jax.environments.rcpsp.kernel import parallel, serial
from regal_jax.environments.rcpsp.kernel.buffers import scratch_words

__all__ = ["HANDLERS", "KERNELS", "PARALLEL", "SERIAL", "scratch_words"]

PARALLEL, SERIAL = range(2)

KERNELS = (parallel.evaluate, serial.evaluate)
HANDLERS = (parallel.handle, serial.handle)
"""By PARALLEL, SERIAL."""
