"""The hook behind XLA's scheduler: it gives the order, and leaves nothing behind."""

import subprocess
import sys
import threading
import uuid

import jax
import jax.numpy as jnp
import pytest

from regal_jax.compiler.xla import scheduler_hook
from regal_jax.compiler.xla.candidates import Search, candidates
from regal_jax.compiler.xla.module_orders import order_of
from regal_jax.compiler.xla.reschedule import memory_of
from regal_jax.compiler.xla.scheduler_hook import compile_in_order
from regal_jax.errors import CompilerError
from regal_jax.graphs.importers.xla.text import parse_module
from tests.compiler import programs


@pytest.fixture(scope="module")
def branching():
    """(lowered function, its module, its plain temporaries, a better order)."""
    lowered = programs.lowered_branches()
    plain = lowered.compile()
    module = parse_module(plain.as_text())
    (found, *_) = candidates(module, Search(("lpmf",)))
    return lowered, module, temporaries(plain), found.order


def temporaries(compiled):
    return memory_of(compiled).temporaries


def fresh(function=programs.branches):
    """The same program, of another function object: nothing of it is cached."""
    return jax.jit(lambda *args: function(*args)).lower(programs.WEIGHTS, programs.ROWS).compile()


def test_xla_runs_the_order_and_needs_less_memory(branching):
    lowered, module, plain, order = branching
    compiled = compile_in_order(lowered, module.name, order)
    found = order_of(parse_module(compiled.as_text()))
    assert {name: found[name] for name in order} == dict(order)
    assert order_of(module)[module.entry] != found[module.entry]
    assert temporaries(compiled) < plain / 2


def test_a_later_compilation_is_plain(branching):
    lowered, module, plain, order = branching
    compile_in_order(lowered, module.name, order)
    assert temporaries(fresh()) == plain


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt(), SystemExit(3)])
def test_after_an_error_in_the_callback_nothing_is_left(branching, monkeypatch, error):
    lowered, module, plain, order = branching
    tag = uuid.uuid4().hex  # that no cache knows

    def broken(*args):
        raise error

    monkeypatch.setattr(scheduler_hook, "digest", lambda order: tag)
    with monkeypatch.context() as patch:
        patch.setattr(scheduler_hook, "_reordered", broken)
        with pytest.raises(CompilerError, match="refused an order"):
            compile_in_order(lowered, module.name, order)
    assert temporaries(fresh()) == plain
    assert temporaries(compile_in_order(lowered, module.name, order)) < plain  # gets past caches


def test_an_interrupt_while_xla_compiles_passes_and_nothing_is_left(branching, monkeypatch):
    lowered, module, plain, order = branching

    class Interrupted:
        def compile(self, options):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_in_order(Interrupted(), module.name, order)
    assert temporaries(fresh()) == plain
    assert temporaries(compile_in_order(lowered, module.name, order)) < plain


def test_an_order_against_the_dependencies_is_refused(branching):
    lowered, module, _, order = branching
    backwards = {module.entry: tuple(reversed(order[module.entry]))}
    with pytest.raises(CompilerError, match=f"refused an order of {module.name}"):
        compile_in_order(lowered, module.name, backwards)


def test_an_order_of_another_program_is_refused(branching):
    lowered, module, _, order = branching
    with pytest.raises(CompilerError, match="isn't of this program"):
        compile_in_order(lowered, module.name, {module.entry: (*order[module.entry], "more")})


def test_what_other_threads_compile_meanwhile_is_plain(branching, monkeypatch):
    lowered, module, _, order = branching
    compiled = []
    in_callback = scheduler_hook._reordered

    def other():
        compiled.append(jax.jit(lambda x: jnp.sin(x) @ x).lower(jnp.ones((8, 8))).compile())

    def slow(found, order):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(timeout=60)
        return in_callback(found, order)

    monkeypatch.setattr(scheduler_hook, "digest", lambda order: uuid.uuid4().hex)  # in no cache
    monkeypatch.setattr(scheduler_hook, "_reordered", slow)
    compile_in_order(lowered, module.name, order)
    assert compiled[0](jnp.ones((8, 8))).shape == (8, 8)


@pytest.mark.parametrize("missing", ["jax.extend.xla", "jaxlib._hlo"])
def test_a_jax_without_the_hook_is_named(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(CompilerError, match=r"has no hook .* pip install 'jax>=0.10.2'"):
        scheduler_hook.check_supported()


PERSISTENT = """
import sys
import jax
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
from regal_jax.compiler.xla.candidates import Search, candidates
from regal_jax.compiler.xla.reschedule import memory_of
from regal_jax.compiler.xla.scheduler_hook import compile_in_order
from regal_jax.graphs.importers.xla.text import parse_module
from tests.compiler import programs
lowered = programs.lowered_branches()
plain = lowered.compile()
module = parse_module(plain.as_text())
order = candidates(module, Search(("lpmf",)))[0].order
better = compile_in_order(lowered, module.name, order)
print(memory_of(plain).temporaries, memory_of(better).temporaries)
"""


def test_the_persistent_cache_keeps_orders_apart(tmp_path):
    def run():
        command = [sys.executable, "-c", PERSISTENT, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    first = run()
    assert any(tmp_path.iterdir())
    assert run() == first
    plain, better = map(int, first.split())
    assert better < plain
