"""What is in memory when: by hand, and against the buffers of the packing."""

import jax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regal_jax.compiler.xla.buffers import allocate
from regal_jax.compiler.xla.live_memory import live_memory
from regal_jax.graphs.importers.xla.text import parse_module
from tests.compiler import programs
from tests.compiler.xla import hlo_strategies

ALL = ("parameter", "constant", "output", "temporary")

CHAIN = """
  x = f32[4] parameter(0)
  a = f32[8] custom-call(x), custom_call_target="f"
  b = f32[8] sine(a)
  c = f32[4] custom-call(b), custom_call_target="f"
  d = f32[4] add(c, x)
  ROOT r = f32[4] negate(d)"""


def of_steps(memory, number):
    """Names of the instructions that write a buffer."""
    return [memory.steps[memory.values[v].step][1] for v in memory.memories[number].values]


def test_a_chain_by_hand():
    memory = live_memory(programs.hand_made(CHAIN))
    assert [name for _, name in memory.steps] == ["x", "a", "b", "c", "d", "r"]
    # b is made in a's memory, d and r in c's; all outputs are 4 floats.
    assert [of_steps(memory, n) for n in range(3)] == [["x"], ["a", "b"], ["c", "d", "r"]]
    assert [one.kind for one in memory.memories] == ["parameter", "temporary", "output"]
    assert [(one.first, one.last) for one in memory.memories] == [(0, 5), (1, 3), (3, 5)]
    assert memory.live_bytes().tolist() == [16, 48, 48, 64, 32, 32]
    assert memory.live_bytes("temporary").tolist() == [0, 32, 32, 32, 0, 0]
    assert memory.live_at(3) == [1, 0, 2]
    assert [memory.held(1, step) for step in (1, 2, 3)] == [1, 2, 2]
    assert memory.readers(1, 1) == (2,)
    assert memory.readers(1, 2) == (3,)
    assert memory.readers(0, 2) == (1, 4)
    assert memory.idle(0, 2) == (1, 4)
    assert memory.idle(0, 1) is None
    assert memory.idle(0, 5) == (4, None)
    assert memory.values[4].operands == (3, 0)


def test_a_donated_parameter_counts_to_its_last_reader_then_the_output():
    body = """
  x = f32[8] parameter(0)
  a = f32[2] custom-call(x), custom_call_target="f"
  b = f32[4] custom-call(a), custom_call_target="f"
  ROOT r = f32[8] custom-call(b), custom_call_target="f" """
    kept = live_memory(programs.hand_made(body))
    donated = live_memory(
        programs.hand_made(body, header=", input_output_alias={ {}: (0, {}, may-alias) }")
    )
    assert kept.live_bytes().tolist() == [32, 40, 56, 80]
    assert donated.live_bytes().tolist() == [32, 40, 24, 48]
    (output,) = (one for one in donated.memories if one.kind == "output")
    assert donated.memories[output.donor].kind == "parameter"


def test_an_update_of_a_donated_parameter_is_one_memory():
    memory = live_memory(
        programs.hand_made(
            """
  x = f32[8] parameter(0)
  ROOT r = f32[8] custom-call(x), custom_call_target="f" """,
            header=", input_output_alias={ {}: (0, {}, may-alias) }",
        )
    )
    assert memory.live_bytes().tolist() == [32, 32]


def test_a_loop_keeps_its_state_in_one_memory():
    module = parse_module(
        jax.jit(programs.looped).lower(programs.WEIGHTS, programs.ROWS).compile().as_text()
    )
    memory = live_memory(module)
    (call,) = memory.calls
    inside = {memory.steps[step][0] for step in range(call.first, call.last + 1)}
    assert module.entry not in inside
    for number in call.operands:
        one = memory.memories[memory.values[number].memory]
        assert one.first < call.first
        assert one.last >= call.last
    assert memory.live_bytes().tolist() == programs.live_bytes(allocate(module), *ALL)


@given(hlo_strategies.texts())
def test_live_bytes_are_those_of_the_buffers(text):
    module = parse_module(text)
    memory = live_memory(module)
    assert memory.live_bytes().tolist() == programs.live_bytes(allocate(module), *ALL)
    assert [
        sum(memory.memories[n].num_bytes for n in memory.live_at(step))
        for step in range(len(memory.steps))
    ] == memory.live_bytes().tolist()
    assert (sum(memory.live_bytes(kind) for kind in ALL) == memory.live_bytes()).all()


@given(hlo_strategies.texts(donations=True))
def test_donors_and_outputs_are_never_counted_together(text):
    memory = live_memory(parse_module(text))
    for one in memory.memories:
        if one.donor is not None:
            assert one.first > memory.memories[one.donor].last


@given(hlo_strategies.texts(donations=True), st.data())
def test_what_is_held_was_written_last_and_is_read_next(text, data):
    memory = live_memory(parse_module(text))
    step = data.draw(st.integers(0, len(memory.steps) - 1))
    for number in memory.live_at(step):
        value = memory.values[memory.held(number, step)]
        readers = memory.readers(number, step)
        assert value.memory == number
        assert set(readers) >= {read for read in value.reads if read >= value.step}
        if (gap := memory.idle(number, step)) is not None:
            assert gap[0] < step
            assert gap[1] is None or step < gap[1] <= memory.memories[number].last


@pytest.mark.parametrize("fn", [programs.branches, programs.looped])
def test_compiled_programs(fn):
    module = parse_module(jax.jit(fn).lower(programs.WEIGHTS, programs.ROWS).compile().as_text())
    memory = live_memory(module)
    assert memory.live_bytes().tolist() == programs.live_bytes(allocate(module), *ALL)
    assert sorted(v for one in memory.memories for v in one.values) == list(
        range(len(memory.values))
    )
