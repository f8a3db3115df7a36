"""Orders of modules, best first."""

import jax
import pytest

from regal_jax.compiler.xla.buffers import allocate
from regal_jax.compiler.xla.candidates import Search, candidates, estimated, headroom
from regal_jax.compiler.xla.module_orders import reordered, sequenced
from regal_jax.compiler.xla.packing import temporary_bytes
from regal_jax.graphs.importers.xla.text import parse_module
from tests.compiler import programs

QUICK = Search(("xla_list", "xla_dfs", "lpmf", "breadth_first", "dp", "auto"), evaluations=2000)


def module_of(function, *shapes):
    return parse_module(jax.jit(function).lower(*shapes).compile().as_text())


def test_the_best_is_first_none_twice_and_estimates_are_of_the_orders():
    module = module_of(programs.branches, programs.WEIGHTS, programs.ROWS)
    found = candidates(module, QUICK)
    estimates = [one.estimate for one in found]
    assert estimates == sorted(estimates)
    assert len({one.order[module.entry] for one in found}) == len(found) >= 2
    for one in found:
        assert one.estimate == temporary_bytes(allocate(reordered(module, one.order)))
    assert found[0].estimate < estimated(module, {}) / 2


def test_bodies_of_loops_are_ordered_too():
    gradient = jax.grad(lambda *args: programs.looped(*args).sum())
    module = module_of(gradient, programs.WEIGHTS, programs.ROWS)
    (best, *_) = candidates(module, QUICK)
    changed = [name for name in sequenced(module) if name in best.order]
    assert any(name != module.entry for name in changed)
    assert best.estimate < estimated(module, {})


def test_a_program_that_no_order_helps_has_no_candidates():
    module = module_of(lambda x: (x @ x) @ x, jax.ShapeDtypeStruct((64, 64), "float32"))
    assert candidates(module, QUICK) == []


def test_no_order_is_searched_that_can_save_too_little():
    quick = Search(("xla_list", "lpmf"))
    module = module_of(programs.branches, programs.WEIGHTS, programs.ROWS)
    room = headroom(module)
    assert candidates(module, quick, worth=room) == candidates(module, quick) != []
    assert candidates(module, quick, worth=room + 1) == []


def test_one_seed_gives_one_result():
    module = module_of(programs.branches, programs.WEIGHTS, programs.ROWS)
    assert candidates(module, QUICK) == candidates(module, QUICK)


def test_without_time_nothing_is_searched():
    module = module_of(programs.branches, programs.WEIGHTS, programs.ROWS)
    assert candidates(module, QUICK._replace(time_limit=1e-9)) == []


@pytest.mark.parametrize("method", ["approximate_dp", "regal", "topoformer"])
def test_other_methods_of_one_device_can_be_asked_for(method):
    module = module_of(programs.branches, programs.WEIGHTS, programs.ROWS)
    (found,) = candidates(module, Search((method,)))
    assert found.name == method
    assert found.estimate < estimated(module, {})
