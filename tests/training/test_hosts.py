"""Training on several hosts: two processes of this machine are two of them."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from regal_jax.errors import OptionError
from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.training import checkpoints, hosts
from tests.cpu_devices import run_on_devices
from tests.training.cases import rows

TRAIN = """
import pathlib, sys
from regal_jax.training import hosts, trainer
hosts.join({hosts!r})
from tests.training.test_trainer import Plan, fit
folder = pathlib.Path({folder!r})
for steps in {steps}:
    plan = Plan(sizes=(4,), steps=steps)
    state = fit(folder, plan, costs=[3.0, 2.0, 1.0], options={{"mesh": trainer.device_mesh(4)}})
hosts.leave()
print(*(float(weight).hex() for weight in state.params["weight"]))
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


def on_two_hosts(program: str, **values) -> list[str]:
    """What a program prints on each; ``hosts`` is filled in."""
    port = free_port()
    running = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                program.format(hosts=f"localhost:{port}/{index}/2", **values),
            ],
            env=os.environ | {"JAX_PLATFORMS": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in (0, 1)
    ]
    ended = [one.communicate(timeout=300) for one in running]
    for one, (_, errors) in zip(running, ended, strict=True):
        assert one.returncode == 0, errors[-2000:]
    return [output for output, _ in ended]


def test_two_hosts_train_as_two_devices_of_one_do(tmp_path):
    known, found = tmp_path / "one", tmp_path / "two"
    expected = run_on_devices(TRAIN.format(hosts="", folder=str(known), steps=[12]), 2)
    first, second = on_two_hosts(TRAIN, folder=str(found), steps=[5, 12])  # and resume
    assert first.splitlines()[-1] == expected.strip()  # gloo writes, too
    assert "0x" not in second
    one, two = (folder / "line.policy" for folder in (known, found))
    (a, *_), (b, *_) = (checkpoints.load_policy(path, OneShotConfig) for path in (one, two))
    np.testing.assert_array_equal(a["weight"], b["weight"])
    assert [row["loss"] for row in rows(found)] == [row["loss"] for row in rows(known)]


@pytest.mark.parametrize("where", ["here", "host/0/2", "host:1/2/2", "host:1/0", "host:1/-1/2"])
def test_hosts_that_are_none(where):
    with pytest.raises(OptionError, match="HOST:PORT/INDEX/NUMBER"):
        hosts.join(where)


def test_one_process_joins_nobody_and_stays():
    hosts.join("")
    assert hosts.is_first()
    hosts.leave()
