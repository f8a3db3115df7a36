"""No writer loses data in silence: where there is no room it raises, and files are as before."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 4096
WRITERS = {
    "results": """
from regal_jax.reporting import results
def write(path, count):
    row = {"graph": "g" * 40, "method": "m", "seed": 0, "metric": "cost"}
    for number in range(count):
        results.append_results(path, [row | {"value": number}] * 3)
def read(path):
    return [row["value"] for row in results.read_results(path, missing_ok=True)][::3]
""",
    "metrics": """
import csv
from regal_jax.training.metrics_log import MetricsLog
def write(path, count):
    log = MetricsLog(path, ("loss", "text"))
    log.start_at(0)
    for number in range(count):
        log.write(number, {"loss": 0.5, "text": "t" * 90})
def read(path):
    with path.open(newline="") as file:
        return [int(row["step"]) for row in csv.DictReader(file)]
""",
    "failures of a zoo build": """
import csv
from regal_jax.datasets.zoo.build import FailureLog, Outcome
def write(path, count):
    log = FailureLog(path)
    for number in range(count):
        log.add(Outcome("jax", f"model {number}", "inference", "r" * 90, 0.5))
def read(path):
    with path.open(newline="") as file:
        return [int(row["name"].split()[1]) for row in csv.DictReader(file)]
""",
    "graphs": """
import regal_jax as rj
def graph(count):
    return rj.ComputationGraph.create(num_ops=count, producer=range(count), size=[8] * count,
                                      consumers=[[] for _ in range(count)])
def write(path, count):
    for number in range(1, count, 20):
        rj.save_graph(graph(number), path)
        print(number, flush=True)
def read(path):
    return [rj.load_graph(path).num_ops]
""",
    "policies": """
import numpy as np
from regal_jax.policies.regal.policy import RegalConfig
from regal_jax.training import checkpoints
def write(path, count):
    for number in range(1, count, 20):
        checkpoints.save_policy(path, {"w": np.zeros(number * 10)}, RegalConfig(), about={})
        print(number, flush=True)
def read(path):
    return [len(checkpoints.load_policy(path, RegalConfig)[0]["w"]) // 10]
""",
}
MAIN = f"""
import resource, sys
from pathlib import Path
from regal_jax.errors import RegalError
resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT}, {LIMIT}))
path = Path(sys.argv[1])
try:
    write(path, 1000)
except RegalError as error:
    print(f"error: {{error}}")
else:
    print("no error")
print("read", *read(path))
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs limits of file sizes")
@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_is_an_error_and_what_was_written_stays(writer, tmp_path):
    path = tmp_path / ("graph.json" if writer == "graphs" else "file")
    done = subprocess.run(
        [sys.executable, "-c", WRITERS[writer] + MAIN, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    *written, error, read = done.stdout.splitlines()
    assert f"error: {path}: can't write there: File too large" in error, done.stderr
    numbers = [int(number) for number in read.split()[1:]]
    if written:  # a file that is replaced holds what was written last
        assert numbers == [int(written[-1])]
    else:
        assert len(numbers) > 10
        assert numbers == list(range(len(numbers)))
    assert path.stat().st_size <= LIMIT
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
