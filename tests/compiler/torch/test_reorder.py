"""Reordered PyTorch programs: the same bits, and the memory that is claimed is the memory taken."""

import copy
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs torch")

from torch import nn  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from regal_jax.compiler.torch.calls import CALLS, recorded  # noqa: E402
from regal_jax.compiler.torch.lowering import lower  # noqa: E402
from regal_jax.compiler.torch.reorder import reorder_fx  # noqa: E402
from regal_jax.compiler.xla.peak_allocation import measured_workspaces, peak_allocation  # noqa: E402
from regal_jax.errors import ImporterError, OptionError  # noqa: E402
from regal_jax.search.orders import rules  # noqa: E402
from tests.torch_modules import MODULES  # noqa: E402

QUICK = {"method": "depth_first"}
KB = 1024


class Wide(nn.Module):
    """Branches that all begin before the first one ends."""

    def __init__(self, branches=6):
        super().__init__()
        self.up = nn.ModuleList(nn.Linear(32, 128) for _ in range(branches))
        self.down = nn.ModuleList(nn.Linear(128, 32) for _ in range(branches))

    def forward(self, x):
        made = [up(x).relu_() for up in self.up]
        return sum(down(value.tanh()) for down, value in zip(self.down, made, strict=True))


class Wired(nn.Module):
    """Randomly wired: every node sums some earlier ones, normalises and convolves."""

    def __init__(self, nodes=8, channels=4):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        layers = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(nodes))
        self.layers = nn.ModuleList(
            nn.Sequential(layer, nn.BatchNorm2d(channels)) for layer in layers
        )
        draws = (
            torch.randint(max(0, n - 4), n + 1, (3,), generator=generator) for n in range(nodes)
        )
        self.sources = [sorted(set(draw.tolist())) for draw in draws]

    def forward(self, x):
        values = [x]
        for sources, layer in zip(self.sources, self.layers, strict=True):
            values.append(layer(sum(values[source] for source in sources).relu()))
        return torch.cat(values[-4:], 1)


class Drawing(nn.Module):
    """Random numbers, running statistics, a counter and views written in place."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.5)
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x):
        first, second = self.drop(x), torch.rand_like(x)
        self.count.add_(1)
        both = torch.cat([self.norm(first), self.norm(second)], 1)
        both[:, 2:4].mul_(self.count[0])
        later = both.exp()
        self.count.mul_(2)
        return later * self.count.sum() + torch.rand_like(both)


CASES = {
    **MODULES,
    "wide": lambda: (Wide(), (torch.randn(64, 32),)),
    "wired": lambda: (Wired(), (torch.randn(2, 4, 16, 16),)),
    "drawing": lambda: (Drawing().train(), (torch.randn(16, 8),)),
}


def exported(name, decomposed):
    torch.manual_seed(0)
    module, args = CASES[name]()
    module.train(name == "drawing")
    program = torch.export.export(module, args)
    return (program.run_decompositions() if decomposed else program), args


def state_and_results(module, args):
    """What a module returns and leaves behind, from the same random numbers and state."""
    module = copy.deepcopy(module)
    torch.manual_seed(1)
    with torch.no_grad():
        results = module(*args)
    return [*tree_leaves(results), *module.state_dict().values()]


def assert_same(module, other, args):
    pairs = zip(state_and_results(module, args), state_and_results(other, args), strict=True)
    assert all(torch.equal(one, another) for one, another in pairs)


def in_order(module, order):
    """The module with its calls in that order, leaving no doubt about what is tested."""
    graph = copy.deepcopy(module.graph)
    calls = [node for node in graph.nodes if node.op in CALLS]
    for index in order:
        graph.output_node().prepend(calls[index])
    graph.lint()
    return torch.fx.GraphModule(module, graph)


def random_orders(module, count):
    graph = lower(recorded(module), {})
    return [rules.random_order(graph, seed).tolist() for seed in range(count)]


@pytest.mark.parametrize(
    ("name", "decomposed"),
    [
        *((name, False) for name in CASES),
        ("residual", True),
        ("attention", True),
        ("drawing", True),
    ],
)
def test_results_and_state_are_the_same_and_the_claim_is_the_measured_peak(name, decomposed):
    program, args = exported(name, decomposed)
    inner = measured_workspaces(copy.deepcopy(program), *args)
    reordered, report = reorder_fx(program, workspaces=inner, **QUICK)
    assert type(reordered) is type(program)
    assert_same(program.module(), reordered.module(), args)
    assert report.resident <= report.lower_bound <= report.peak_after <= report.peak_before
    for tried, claimed in ((program, report.peak_before), (reordered, report.peak_after)):
        with torch.no_grad():
            measured = peak_allocation(tried.module(), *args)
        assert measured == claimed - report.resident


@pytest.mark.parametrize(
    ("name", "decomposed"),
    [
        ("branches", False),
        ("wired", False),
        ("attention", True),
        ("drawing", False),
        ("drawing", True),
    ],
)
def test_any_order_of_the_graph_gives_the_same_bits(name, decomposed):
    program, args = exported(name, decomposed)
    module = program.module()
    for order in random_orders(module, 4):
        assert_same(module, in_order(module, order), args)


def test_branches_are_finished_one_by_one():
    torch.manual_seed(0)
    program = torch.export.export(Wide(6), (torch.randn(64, 32),))
    reordered, report = reorder_fx(program, evaluations=2000)
    wide, narrow = 64 * 128 * 4, 64 * 32 * 4
    assert report.peak_before - report.resident == 6 * wide + wide
    assert report.peak_after - report.resident <= 2 * wide + 2 * narrow
    before = [node.name for node in program.graph.nodes]
    after = [node.name for node in reordered.graph.nodes]
    assert sorted(before) == sorted(after)
    assert before != after


@st.composite
def instructions(draw):
    """(what, first, second): on values by number, some written in place, some views of others."""
    kinds = ("add", "tanh", "relu_", "add_", "transpose", "slice", "cat", "rand", "fill_", "state")
    count = draw(st.integers(3, 12))
    rows = [(draw(st.sampled_from(kinds)), draw(st.integers(0, n)), draw(st.integers(0, n)))
            for n in range(count)]  # fmt: skip
    return [*rows, ("tanh", count, 0)]


def run_instructions(rows, x, state):
    values = [x * 1]
    for kind, first, second in rows:
        one, two = values[first], values[second]
        if kind in ("add", "add_"):
            result = getattr(one, kind)(two.clone())  # which may be another view of the same
        elif kind in ("tanh", "relu_"):
            result = getattr(one, kind)()
        elif kind == "transpose":
            result = one.t()
        elif kind == "slice":
            result = one[1:].repeat(3, 1)[: len(one)] if second % 2 else one.view_as(one)
        elif kind == "cat":
            result = torch.cat([one, two])[::2]
        elif kind == "rand":
            result = torch.rand_like(one)
        elif kind == "fill_":
            one[0].fill_(second)
            result = one
        else:
            result = state.add_(one).clone()
        values.append(result)
    return values[-1] + values[-2], state


@given(instructions())
@settings(max_examples=30)
def test_writes_views_and_random_draws_keep_their_order(rows):
    def function(x, state):
        return run_instructions(rows, x, state)

    x = torch.linspace(-1, 1, 16).reshape(4, 4)
    module = make_fx(function, tracing_mode="fake")(x, torch.zeros(4, 4))

    def results(tried):
        torch.manual_seed(0)
        return tried(x, torch.zeros(4, 4))

    wanted = results(module)
    found = [in_order(module, order) for order in random_orders(module, 3)]
    for tried in (*found, reorder_fx(module, **QUICK)[0]):
        assert all(torch.equal(one, two) for one, two in zip(results(tried), wanted, strict=True))


def test_a_module_keeps_its_parameters_hooks_and_signature():
    program = torch.export.export(Wide(3), (torch.randn(8, 32),))
    module = program.module()
    reordered, _ = reorder_fx(module, **QUICK)
    assert isinstance(reordered, type(module).__mro__[1])
    assert module.graph.owning_module is module
    for name, parameter in module.named_parameters():
        assert reordered.get_parameter(name) is parameter
    before = module.code
    with pytest.raises(AssertionError, match="Guard failed"):
        reordered(torch.randn(9, 32))
    assert module.code == before


def test_sizes_are_those_of_the_example_and_other_sizes_run():
    batch = {"x": {0: torch.export.Dim("batch", min=2)}}
    program = torch.export.export(Wide(4), (torch.randn(64, 32),), dynamic_shapes=batch)
    reordered, report = reorder_fx(program, **QUICK)
    assert report.peak_before - report.resident == (4 + 1) * 64 * 128 * 4
    assert_same(program.module(), reordered.module(), (torch.randn(5, 32),))


def test_a_reordered_program_can_be_saved():
    program, args = exported("wide", False)
    reordered, _ = reorder_fx(program, **QUICK)
    file = io.BytesIO()
    torch.export.save(reordered, file)
    file.seek(0)
    loaded = torch.export.load(file)
    assert_same(program.module(), loaded.module(), args)
    names = [[node.name for node in p.graph.nodes] for p in (reordered, loaded)]
    assert names[0] == names[1]


def test_nothing_crosses_a_call_whose_effects_cannot_be_seen():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(4)
    before = graph.call_function(torch.ops.aten.tanh.default, (x,))
    graph.call_function(print, ("hello",))
    after = graph.call_function(torch.ops.aten.exp.default, (x,))
    graph.output((before, after))
    lowered = lower(recorded(torch.fx.GraphModule({}, graph)), {})
    assert {tuple(edge[[0, 2]].tolist()) for edge in lowered.edges} == {(0, 1), (1, 2)}


def test_what_cannot_be_reordered():
    with pytest.raises(OptionError, match="not Wide"):
        reorder_fx(Wide())
    with pytest.raises(ImporterError, match=r"'x' has no meta\['val'\]"):
        reorder_fx(torch.fx.symbolic_trace(Wide()))

    class Chosen(nn.Module):
        def forward(self, x):
            return x[x > 0].sum()

    with pytest.raises(ImporterError, match="depends on data"):
        reorder_fx(torch.export.export(Chosen(), (torch.randn(4),)))


def test_peak_allocation_by_hand():
    def function(x):
        first = x.tanh()
        second = first.exp()  # both: 8 KB
        del first
        third = torch.cat([second, second])  # 12 KB
        del second
        return third[:4].clone()

    assert peak_allocation(function, torch.zeros(KB)) == 12 * KB
    assert peak_allocation(lambda x: x.relu_(), torch.zeros(KB)) == 0


def test_workspaces_are_what_a_call_frees_again():
    class Sorted(nn.Module):
        def forward(self, x):
            return torch.nn.functional.max_pool2d(x, 2).tanh()  # whose indices are dropped

    program = torch.export.export(Sorted(), (torch.randn(1, 1, 32, 32),))
    inner = measured_workspaces(program, torch.randn(1, 1, 32, 32))
    assert inner["max_pool2d"] == 16 * 16 * 8
    assert inner["tanh"] == 0
    (pool, _) = recorded(program.graph_module).calls
    assert pool.workspace == 16 * 16 * 8
