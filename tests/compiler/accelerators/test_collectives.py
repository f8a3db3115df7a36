import pytest

from regal_jax.compiler.accelerators.collectives import Phase, link_seconds, part_of_collective
from regal_jax.compiler.accelerators.module_costs import module_costs
from regal_jax.compiler.accelerators.specifications import SPECIFICATIONS, Link
from regal_jax.graphs.importers.xla.text import parse_module
from tests.compiler.accelerators.modules import ADD

LINK = Link(bytes_per_second=1e9, latency=1e-5, step_latency=1e-6)
H100, V5E = SPECIFICATIONS["h100"], SPECIFICATIONS["v5e"]

ONE = """
HloModule one, is_scheduled=true, replica_count=1, num_partitions=8
ADD
ENTRY main {
  a = f32[1024]{0:S(1)} parameter(0)
  ROOT out = f32[1024] KIND(a), GROUPS, to_apply=add
}
""".replace("ADD", ADD)


def part(kind, groups):
    module = parse_module(ONE.replace("KIND", kind).replace("GROUPS", groups))
    computation = module.computations[module.entry]
    return part_of_collective(module, computation, computation.instructions["out"])


GROUPS = {
    "replica_groups={{0,1,2,3},{4,5,6,7}}": 4,
    "replica_groups=[4,2]<=[2,4]T(1,0)": 2,
    "replica_groups=mesh['data'=2,'model'=4] {'model'}": 4,
    "replica_groups=mesh['data'=2,'model'=4] {'data','model'}": 8,
    "replica_groups=mesh['all'=8] {'all':(2)4}": 4,
    "replica_groups={}": 8,
}


@pytest.mark.parametrize("groups", GROUPS)
def test_how_many_devices_share_it(groups):
    assert part("all-reduce", groups).devices == GROUPS[groups]


SENT = {  # of 4,096 bytes among 4 devices: bytes, steps
    "all-reduce": (2 * 3 * 1024, 6),
    "all-gather": (3 * 4096, 3),
    "reduce-scatter": (3 * 1024, 3),
    "all-to-all": (3 * 1024, 3),
    "collective-permute": (4096, 1),
}


@pytest.mark.parametrize("kind", SENT)
def test_what_a_ring_sends(kind):
    """Of bytes on the chip, too."""
    sent, steps = SENT[kind]
    found = part(kind, "replica_groups={{0,1,2,3},{4,5,6,7}}")
    assert (found.phase, found.kind, found.sent) == (Phase.WHOLE, kind, 4096)
    assert link_seconds(found, LINK) == pytest.approx(1e-5 + steps * 1e-6 + sent / 0.8e9)


def test_one_device_sends_nothing():
    assert link_seconds(part("all-reduce", "replica_groups={{0}}"), LINK) == 0.0


BESIDE = """
HloModule beside, is_scheduled=true, num_partitions=8
ADD
ENTRY main {
  a = f32[8388608] parameter(0)
  first = f32[8388608] all-reduce-start(a), to_apply=add
  second = f32[8388608] all-reduce-start(a), to_apply=add
  b = f32[1048576] parameter(1)
WORK
  done = f32[8388608] all-reduce-done(first)
  ends = f32[8388608] all-reduce-done(second)
  ROOT out = (f32[8388608], f32[8388608]) tuple(done, ends)
}
""".replace("ADD", ADD)
RING = 6.6e-6 + 14 * 0.6e-6 + 1.75 * 2**25 / (0.8 * 450e9)
KERNEL = 2.3e-6 + 2 * 2**22 / (0.8 * 3.35e12)


@pytest.mark.parametrize("kernels", [0, 10, 200])
def test_links_work_beside_kernels(kernels):
    """Collectives are one behind another; the longer of both counts."""
    work = "\n".join(f"  w{i} = f32[1048576] negate(b)" for i in range(kernels))
    costs = module_costs(parse_module(BESIDE.replace("WORK", work)), H100)
    assert costs.seconds == pytest.approx(max(2 * RING, kernels * KERNEL))
    assert (costs.collectives, costs.overlapped) == (2, 2 * (kernels > 0))


def test_whole_collectives_wait():
    text = BESIDE.replace("WORK", "  w = f32[8388608] all-reduce(a), to_apply=add")
    costs = module_costs(parse_module(text), H100)
    assert costs.seconds == pytest.approx(3 * RING)
    assert (costs.collectives, costs.overlapped) == (3, 0)


CHAIN = """
HloModule chain, is_scheduled=true, num_partitions=8
begin {
  p = f32[1024] parameter(0)
  part = f32[8192] all-gather(p), channel_id=5, dimensions={0}, x={chain_id="0"}
  ROOT sent = (f32[1024], f32[8192]) custom-call(part), custom_call_target="AsyncCollectiveStart"
}
go_on {
  p = f32[1024] parameter(0)
  part = f32[8192] all-gather(p), channel_id=5, dimensions={0}, x={chain_id="0"}
  ROOT work = f32[1024] negate(p)
}
finish {
  p = f32[1024] parameter(0)
  part = f32[8192] all-gather(p), channel_id=5, dimensions={0}, x={chain_id="0"}
  ROOT whole = f32[8192] custom-call(p, part), custom_call_target="AsyncCollectiveDone"
}
ENTRY main {
  a = f32[1024] parameter(0)
  start = (f32[1024], f32[8192]) fusion(a), kind=kLoop, calls=begin, CYCLES
  work = f32[1024] fusion(a), kind=kLoop, calls=go_on, CYCLES
  done = f32[8192] fusion(a), kind=kLoop, calls=finish, CYCLES
  ROOT out = (f32[1024], f32[8192]) tuple(work, done)
}
"""


@pytest.mark.parametrize("cycles", [0, 300_000])
def test_fusions_of_a_tpu_that_are_one_collective(cycles):
    text = CHAIN.replace("CYCLES", f'backend_config={{"estimated_cycles":"{cycles}"}}')
    costs = module_costs(parse_module(text), V5E)
    ring = 7e-6 + 7 * 4096 / (0.8 * 90e9)
    assert costs.seconds == pytest.approx(max(ring, 3 * cycles / 1.5e9))
    assert (costs.collectives, costs.overlapped) == (1, 1)


def test_a_collective_fused_with_work():
    text = CHAIN.replace(', x={chain_id="0"}', "").replace("AsyncCollective", "Other")
    costs = module_costs(parse_module(text.replace("CYCLES", "x=1")), V5E)
    assert costs.seconds == pytest.approx(3 * (7e-6 + 7 * 4096 / (0.8 * 90e9)))
    assert (costs.collectives, costs.overlapped) == (3, 3)
