"""Programs in processes that have several devices."""

import os
import subprocess
import sys


def run_on_devices(program: str, count: int) -> str:
    """What a Python program prints where JAX has this many CPU devices."""
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={count}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
