"""What the benchmarks of compiled kernels share: fair timing, and peers in plain C++."""

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path

import jax


def fastest(
    contenders: dict[str, Callable], repeats: int, *, slow: Collection[str] = ()
) -> dict[str, float]:
    """Seconds of the fastest call of each; calls alternate, so that all meet the same machine.

    The ``slow`` ones are called three times at most.
    """
    best = dict.fromkeys(contenders, float("inf"))
    for repeat in range(repeats):
        for name, run in contenders.items():
            if name in slow and repeat >= 3:
                continue
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def on_device(function, genes) -> Callable:
    """A call with genes that are on the device already; it waits for the result."""
    genes = jax.device_put(genes)
    return lambda: jax.block_until_ready(function(genes))


def compiled_library(source: Path):
    """A C++ file as a shared library, or None (with a message) where g++ is missing."""
    if shutil.which("g++") is None:
        print("g++ is not installed: the comparison with plain C++ is left out")
        return None
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / f"{source.stem}.so"
        command = ["g++", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", target]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(target))
