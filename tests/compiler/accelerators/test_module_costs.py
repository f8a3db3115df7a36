import pytest

from regal_jax.compiler.accelerators.module_costs import module_costs
from regal_jax.compiler.accelerators.specifications import SPECIFICATIONS
from regal_jax.graphs.importers.xla.text import parse_module
from tests.compiler.accelerators.modules import ADD

H100, V5E = SPECIFICATIONS["h100"], SPECIFICATIONS["v5e"]

PRODUCT = """
HloModule product, is_scheduled=true
ENTRY main {
  a = f32[1024,1024] parameter(0)
  b = f32[1024,1024] parameter(1)
  dot = f32[1024,1024] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = f32[1024,1024] negate(dot)
}
"""


def test_a_roofline_by_hand():
    costs = module_costs(parse_module(PRODUCT), H100)
    array, flops = 4 * 2**20, 2 * 2**30
    assert costs.kernels == 2
    assert costs.flops == flops + 2**20
    assert costs.bytes_accessed == 5 * array
    product = max(flops / (0.4 * 494.7e12), 3 * array / (0.8 * 3.35e12))
    assert costs.seconds == pytest.approx(2 * 2.3e-6 + product + 2 * array / (0.8 * 3.35e12))


LIBRARIES = """
HloModule libraries, is_scheduled=true
ENTRY main {
  x = f32[8,32,32,16] parameter(0)
  kernel = f32[64,3,3,16] parameter(1)
  conv = (f32[8,32,32,64], u8[4096]) custom-call(x, kernel), CONV="__cudnn$convForward"
  out = f32[8,32,32,64] get-tuple-element(conv), index=0
  slope = (f32[64,3,3,16], u8[4096]) custom-call(x, out), CONV="__cudnn$convBackwardFilter"
  back = (f32[8,32,32,16], u8[4096]) custom-call(out, kernel), CONV="__cudnn$convBackwardInput"
  a = f32[32,128] parameter(2)
  b = f32[32,256] parameter(3)
  gemm = (f32[128,256], s8[33554432]) custom-call(a, b), GEMM
  ROOT product = f32[128,256] get-tuple-element(gemm), index=0
}
"""
for _short, _long in (
    ("CONV", "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_o01i->b01f, custom_call_target"),
    (
        "GEMM",
        'custom_call_target="__cublas$lt$matmul", backend_config={"gemm_backend_config":'
        '{"dot_dimension_numbers":{"lhs_contracting_dimensions":["0"]}}}',
    ),
):
    LIBRARIES = LIBRARIES.replace(_short, _long)


def test_calls_of_libraries_by_hand():
    """A convolution and both of its gradients have the same FLOPs; a workspace is no result."""
    costs = module_costs(parse_module(LIBRARIES), H100)
    convolution, product = 2 * 8 * 32 * 32 * 64 * 3 * 3 * 16, 2 * 128 * 256 * 32
    assert costs.flops == 3 * convolution + product
    x, out, kernel = 4 * 8 * 32 * 32 * 16, 4 * 8 * 32 * 32 * 64, 4 * 64 * 3 * 3 * 16
    assert costs.bytes_accessed == 3 * (x + out + kernel) + 4 * (32 * 128 + 32 * 256 + 128 * 256)


LOOP = """
HloModule loop, is_scheduled=true
body {
  state = f32[8] parameter(0)
  ROOT next = f32[8] negate(state), backend_config={"window_config":{"estimated_cycles":"150"}}
}
condition {
  state = f32[8] parameter(0)
  ROOT more = pred[] constant(true)
}
ENTRY main {
  a = f32[8] parameter(0)
  first = f32[8] negate(a), backend_config={"estimated_cycles":"1500"}
  ROOT loop = f32[8] while(first), condition=condition, body=body, TRIPS
}
""".replace("TRIPS", 'backend_config={"known_trip_count":{"n":"10"}}')


def test_cycles_of_loops_count_as_often_as_they_run():
    costs = module_costs(parse_module(LOOP), V5E)
    assert costs.seconds == pytest.approx((1500 + 10 * 150) / 1.5e9)
    assert costs.kernels == 2
    assert costs.flops == 8 + 10 * 8


def test_a_fusion_without_an_estimate_has_its_roofline():
    unknown = PRODUCT.replace("negate(dot)", f'negate(dot), x={{"estimated_cycles":"{2**63 - 1}"}}')
    costs = module_costs(parse_module(unknown), V5E)
    assert costs.seconds == pytest.approx(2 * 4 * 2**20 / (0.8 * 819e9))


STACKING = """
HloModule stacking, is_scheduled=true
write {
  stack = f32[8,4,256] parameter(0)
  place = s32[] parameter(1)
  new = f32[4,256] parameter(2)
  row = f32[1,1024] bitcast(new)
  rows = f32[8,1024] bitcast(stack)
  zero = s32[] constant(0)
  written = f32[8,1024] dynamic-update-slice(rows, row, place, zero)
  renamed = f32[8,4,256] bitcast(written)
  MADE
}
ENTRY main {
  stack = f32[8,4,256] parameter(0)
  place = s32[] parameter(1)
  new = f32[4,256] parameter(2)
  RUN
}
"""
WRITTEN = {
    "a fusion": (
        "ROOT out = (f32[8,4,256]) tuple(renamed)",
        "ROOT out = (f32[8,4,256]) fusion(stack, place, new), kind=kLoop, calls=write",
    ),
    "an asynchronous one": (
        "ROOT out = f32[8,4,256] bitcast(written)",
        "begin = ((f32[8,4,256], s32[], f32[4,256]), f32[8,4,256], u32[])"
        " fusion-start(stack, place, new), kind=kLoop, calls=write\n"
        "  ROOT out = f32[8,4,256] fusion-done(begin)",
    ),
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_stack_is_written_a_row_at_a_time(kind):
    """By whatever name; the end of what runs asynchronously is no kernel."""
    made, run = WRITTEN[kind]
    text = STACKING.replace("MADE", made).replace("RUN", run)
    costs = module_costs(parse_module(text), H100)
    assert costs.kernels == 1
    assert costs.bytes_accessed == 4 + 2 * 4 * 1024  # where to, and a row that is read and written


COLLECTIVES = """
HloModule collectives, is_scheduled=true
ADD
ENTRY main {
  a = f32[8] parameter(0)
  start = (f32[8], f32[32]) all-gather-start(a), dimensions={0}
  work = f32[8] negate(a)
  done = f32[32] all-gather-done(start)
  second = (f32[8], f32[32]) all-gather-start(work), dimensions={0}
  waited = f32[32] all-gather-done(second)
  whole = f32[32] all-reduce(done), to_apply=add
  ROOT out = (f32[32], f32[32]) tuple(whole, waited)
}
""".replace("ADD", ADD)


def test_what_runs_beside_collectives():
    costs = module_costs(parse_module(COLLECTIVES), H100)
    assert (costs.collectives, costs.overlapped) == (3, 1)
