import pytest

from regal_jax.graphs.importers.xla.text import parse_module
from regal_jax.graphs.importers.xla.trips import trip_count

LOOP = """
HloModule loop, is_scheduled=true
body {
  state = (f32[8], s32[]) parameter(0)
  a = f32[8] get-tuple-element(state), index=0
  i = s32[] get-tuple-element(state), index=1
  near = s32[] copy(i)
  step = s32[] constant(2)
  next = s32[] add(near, step)
  ROOT out = (f32[8], s32[]) tuple(a, next)
}
condition {
  state = (f32[8], s32[]) parameter(0)
  i = s32[] get-tuple-element(state), index=1
  limit = s32[] constant(14)
  ROOT more = pred[] compare(i, limit), direction=LT
}
ENTRY main {
  a = f32[8] parameter(0)
  n = s32[] parameter(1)
  three = s32[] constant(3)
  start = s32[] copy(three)
  state = (f32[8], s32[]) tuple(a, start)
  ROOT loop = (f32[8], s32[]) while(state), condition=condition, body=body
}
"""


def trips(text):
    module = parse_module(text)
    computation = module.computations[module.entry]
    return trip_count(module, computation, computation.instructions["loop"])


CHANGES = {
    "as it is: 3, 5, .. 13": ("", "", 6),
    "the compiler knows": ("body=body", 'body=body, x={"known_trip_count":{"n":"7"}}', 7),
    "a start that isn't seen": ("copy(three)", "copy(n)", 7),
    "a step backwards": ("constant(2)", "constant(-2)", None),
    "another counter is added to": ("copy(i)", "copy(limit)\n  limit = s32[] constant(1)", None),
    "no sum": ("add(near, step)", "multiply(near, step)", None),
    "another test": ("direction=LT", "direction=NE", None),
    "a limit that isn't seen": ("limit = s32[] constant(14)", "limit = s32[] negate(i)", None),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_counter_below_a_constant(case):
    before, after, expected = CHANGES[case]
    assert trips(LOOP.replace(before, after) if before else LOOP) == expected
