"""What the training loops share: work ahead, and the better of two policies."""

import threading

import chex
import jax.numpy as jnp
import numpy as np
import pytest

from regal_jax.policies.one_shot.policy import OneShotConfig
from regal_jax.training import checkpoints
from regal_jax.training.run_folder import ahead, open_run


@chex.dataclass(frozen=True)
class Numbers:
    params: chex.Array
    baseline: chex.Array
    best: chex.Array
    step: chex.Array


def numbers(step: int, param: float = 0.0) -> Numbers:
    zero, param = jnp.float32(0), jnp.float32(param)
    return Numbers(params=param, baseline=zero, best=jnp.float32(5), step=jnp.int32(step))


def test_items_come_in_order_and_one_is_made_ahead():
    made, threads = [], set()

    def items():
        for number in range(4):
            made.append(number)
            threads.add(threading.get_ident())
            yield number

    assert list(ahead(items())) == [0, 1, 2, 3]
    assert made == [0, 1, 2, 3]
    assert threading.get_ident() not in threads
    assert list(ahead(iter(()))) == []


def test_an_error_in_the_background_is_raised_where_its_item_would_be():
    def items():
        yield 1
        raise ValueError("no second item")

    found = ahead(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match="no second item"):
        next(found)


def test_only_a_better_policy_is_kept(tmp_path):
    with open_run(tmp_path / "new", ("cost",)) as folder:
        worse = folder.keep_better(numbers(3, 7.0), 5.0, OneShotConfig(), {})
        assert not folder.best_policy.exists()
        better = folder.keep_better(numbers(3, 7.0), 4.5, OneShotConfig(), {"data": "none"})
    assert (float(worse.best), float(worse.baseline)) == (5, 0)
    assert (float(better.best), float(better.baseline)) == (4.5, 7)
    params, config, about = checkpoints.load_policy(folder.best_policy, OneShotConfig)
    assert (float(params), config) == (7, OneShotConfig())
    assert about == {"data": "none", "steps": 3, "validation_cost": 4.5}


def test_a_folder_goes_on_from_its_latest_checkpoint(tmp_path):
    with open_run(tmp_path, ("cost",)) as folder:
        assert int(folder.restored(numbers(0)).step) == 0
        for step in (1, 2, 3):
            folder.log.write(step, {"cost": 0.5})
            if step < 3:
                folder.save(numbers(step, step))
    with open_run(tmp_path, ("cost",)) as folder:
        found = folder.restored(numbers(0))
    chex.assert_trees_all_equal(found, numbers(2, 2.0))
    rows = (tmp_path / "metrics.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["step", "1", "2"]
    assert np.isfinite(float(found.best))
