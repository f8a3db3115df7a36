"""PyTorch programs: what becomes an op and a tensor, against make_fx, real runs and real memory."""

import collections

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from regal_jax import from_torch  # noqa: E402
from regal_jax.errors import ImporterError, OptionError  # noqa: E402
from regal_jax.graphs.importers.torch import lowering, tracing  # noqa: E402
from regal_jax.search.orders import rules  # noqa: E402
from tests import torch_interpreter  # noqa: E402
from tests.graphs.cases import peak  # noqa: E402
from tests.torch_modules import MODULES  # noqa: E402

nn = torch.nn


def traced(module, *args, mode="inference", loss=None):
    """The simplified program and its graph."""
    recorded = tracing.trace(module, args, {}, mode=mode, loss=loss)
    program = lowering.simplified(recorded)
    return program, lowering.lower(program).build()


@pytest.mark.parametrize("mode", ["inference", "training", "training_adam"])
@pytest.mark.parametrize("name", list(MODULES))
def test_the_model_peak_is_the_measured_peak_and_every_order_gives_the_same_numbers(name, mode):
    torch.manual_seed(0)
    module, args = MODULES[name]()
    module.train(mode != "inference")
    program, graph = traced(module, *args, mode=mode)
    given = torch_interpreter.named_values(module, args)
    given |= {n: torch.zeros_like(given[n.rsplit(".", 1)[0]]) for n in _moments(program)}
    orders = [np.arange(graph.num_ops), rules.random_order(graph, 1)]
    orders += [rules.depth_first(graph), rules.breadth_first(graph)]
    expected = None
    for order in orders:
        results, measured = torch_interpreter.execute(program, given, order)
        assert measured == peak(graph, order)
        expected = expected or results
        for result, other in zip(results, expected, strict=True):
            assert torch.equal(result, other)


def _moments(program):
    return [name for name in program.names.values() if "exp_avg" in name]


@pytest.mark.parametrize("name", list(MODULES))
def test_results_are_the_modules_own(name):
    torch.manual_seed(0)
    module, args = MODULES[name]()
    module.train()
    program, _ = traced(module, *args, mode="training")
    given = torch_interpreter.named_values(module, args)
    given = {key: value.clone() for key, value in given.items()}
    results, _ = torch_interpreter.execute(program, given)
    loss = tracing.default_loss(module(*args))
    gradients = torch.autograd.grad(loss, list(module.parameters()), allow_unused=True)
    wanted = [loss, *(gradient for gradient in gradients if gradient is not None)]
    for result, other in zip(results, wanted, strict=True):
        torch.testing.assert_close(result, other)


@pytest.mark.parametrize("name", list(MODULES))
def test_ops_are_those_of_make_fx_without_views(name):
    module, args = MODULES[name]()
    module.eval()
    _, graph = traced(module, *args)
    with torch.no_grad():
        fx = make_fx(module)(*args)
    fx.graph.eliminate_dead_code()
    varying = {node for node in fx.graph.nodes if node.op in ("placeholder", "get_attr")}
    for node in fx.graph.nodes:
        varying |= {node} if varying.intersection(node.all_input_nodes) else set()
    calls = [node.target for node in fx.graph.nodes if node in varying]
    kinds = [call._schema.name[6:] for call in calls if _makes_a_tensor(call)]
    assert collections.Counter(graph.op_kinds) == collections.Counter(kinds)


def _makes_a_tensor(call):
    """An ATen op that makes or changes a tensor: no view, also of those that hide it."""
    if not isinstance(call, torch._ops.OpOverload):
        return False
    is_view = any(r.alias_info and not r.alias_info.is_write for r in call._schema.returns)
    return not is_view and call._schema.name not in ("aten::_unsafe_view", "aten::unsafe_split")


@pytest.mark.parametrize("name", list(MODULES))
def test_products_are_counted_as_pytorch_counts_them(name):
    module, args = MODULES[name]()
    module.eval()
    _, graph = traced(module, *args)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(*args)
    products = {"mm", "addmm", "bmm", "baddbmm", "convolution"}
    counted = [f for f, kind in zip(graph.flops, graph.op_kinds, strict=True) if kind in products]
    assert sum(counted) == counter.get_total_flops()


def test_a_grouped_convolution_costs_in_the_backward_pass_twice_its_forward():
    module = nn.Conv2d(8, 16, 3, padding=1, groups=4, bias=False)
    x = torch.empty(2, 8, 10, 10, requires_grad=True)
    program = nn.Sequential(nn.Conv2d(8, 8, 1, bias=False), module)
    _, graph = traced(program, x, mode="training")
    flops = collections.defaultdict(list)
    for kind, count in zip(graph.op_kinds, graph.flops, strict=True):
        flops[kind].append(count)
    forward = 2 * 2 * 100 * 16 * 9 * 2
    assert flops["convolution"] == [2 * 2 * 100 * 8 * 8, forward]
    assert flops["convolution_backward"][0] == 2 * forward


def test_attention_on_the_cpu_is_counted():
    def attend(q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v)

    q, k = torch.empty(2, 4, 10, 16), torch.empty(2, 4, 12, 16)
    graph = from_torch(attend, q, k, k.clone())
    assert graph.flops.sum() == 4 * (2 * 4 * 10 * 16) * 12


def test_an_update_in_place_keeps_its_parameter_and_waits_for_all_readers():
    graph = from_torch(nn.Linear(3, 2, bias=False), torch.ones(4, 3), mode="training_adam")
    roles = graph.extra["tensors"]["role"]
    weight = roles.index("parameter")
    writer = graph.op_kinds.index("addcdiv_")
    readers = set(graph.consumers.row(weight).tolist()) - {writer}
    before = {int(u) for u, _, v in graph.edges if v == writer}
    assert graph.persistent[weight]
    assert readers <= before
    assert graph.size[graph.outputs.row(writer)].sum() == 0
    assert roles.count("state") == 2
    assert graph.extra["ops"]["phase"][writer] == "update"


def test_in_place_chains_are_one_storage():
    def chain(x):
        y = x + 1
        y.mul_(2)
        z = y.view(-1)[:3].exp()
        return y.relu_(), z

    graph = from_torch(chain, torch.ones(4, 5))
    assert graph.op_kinds == ("add", "mul_", "exp", "relu_")
    assert sorted(graph.size.tolist()) == [0, 0, 12, 80, 80]
    assert [set(graph.edges[graph.edges[:, 2] == op, 0]) for op in range(4)] == [
        set(),
        {0},
        {0, 1},
        {0, 1, 2},
    ]


def test_constants_are_folded_and_dead_code_is_dropped():
    def masked(x):
        mask = torch.full((5, 5), float("-inf")).triu(1)
        x.cos()
        return x + mask

    graph = from_torch(masked, torch.ones(5, 5))
    assert graph.op_kinds == ("add",)
    assert graph.size.tolist() == [100, 100, 100]
    assert graph.producer.tolist() == [-1, -1, 0]


def test_a_constant_that_is_changed_by_data_is_an_op():
    def accumulate(x):
        total = torch.zeros(5)
        total.add_(x)
        return total

    assert from_torch(accumulate, torch.ones(5)).op_kinds == ("zeros", "add_")


def test_an_op_of_several_results_owns_several_tensors():
    graph = from_torch(lambda x: torch.max(x, dim=1), torch.ones(4, 5))
    assert graph.op_kinds == ("max",)
    assert graph.size[graph.outputs.row(0)].tolist() == [16, 32]


def test_tied_weights_are_one_parameter():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens):
            return self.head(self.embedding(tokens))

    graph = from_torch(Tied(), torch.zeros(2, 3, dtype=torch.long), mode="training")
    assert graph.extra["tensors"]["role"].count("parameter") == 1
    assert graph.extra["tensors"]["role"].count("gradient") == 1


def test_meta_modules_and_exported_programs_give_the_same_graph():
    module, args = MODULES["residual"]()
    module.eval()
    graph = from_torch(module, *args)
    on_meta = from_torch(module.to("meta"), *(arg.to("meta") for arg in args))
    assert on_meta.replace(name=graph.name) == graph
    module, args = MODULES["mlp"]()
    exported = from_torch(torch.export.export(module.eval(), args))
    assert exported.op_kinds == from_torch(module, *args).op_kinds


def test_checkpointing_computes_again():
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                x = checkpoint(lambda v, f=layer: f(v).tanh().exp(), x, use_reentrant=False)
            return x

    graph = from_torch(Checkpointed(), torch.ones(2, 8), mode="training")
    phases = dict.fromkeys(("forward", "backward"), 0)
    for kind, phase in zip(graph.op_kinds, graph.extra["ops"]["phase"], strict=True):
        phases[phase] += kind == "addmm"
    assert phases == {"forward": 3, "backward": 3}


class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum().item() > 0 else -x


class Ragged(nn.Module):
    def forward(self, x):
        return x[x > 0]


@pytest.mark.parametrize(
    ("module", "reason"),
    [(Branching(), "control flow depends on data"), (Ragged(), "shapes depend on data")],
)
def test_what_depends_on_data_is_refused_in_one_line(module, reason):
    with pytest.raises(ImporterError, match=reason) as caught:
        from_torch(module, torch.ones(3))
    assert "\n" not in str(caught.value)


def test_a_custom_op_without_a_fake_kernel_is_refused():
    @torch.library.custom_op("regal_jax_tests::mystery", mutates_args=())
    def mystery(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    with pytest.raises(ImporterError, match="mystery"):
        from_torch(mystery, torch.ones(3))


def test_other_mistakes_are_one_line():
    with pytest.raises(ImporterError, match=r"Linear: PyTorch can't trace it: RuntimeError"):
        from_torch(nn.Linear(3, 2), torch.ones(4, 5))
    with pytest.raises(OptionError, match="mode is 'train'"):
        from_torch(nn.Linear(3, 2), torch.ones(4, 3), mode="train")
    with pytest.raises(OptionError, match="needs a module"):
        from_torch(torch.relu, torch.ones(3), mode="training")
    with pytest.raises(OptionError, match="no floating-point output"):
        from_torch(nn.ReLU(), torch.ones(3), mode="training")


def test_a_train_step_of_ones_own():
    module = nn.Linear(3, 2)

    def step(parameters, x):
        loss = torch.func.functional_call(module, parameters, (x,)).square().mean()
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        return [p - 0.1 * g for p, g in zip(parameters.values(), gradients, strict=True)]

    graph = from_torch(step, dict(module.named_parameters()), torch.ones(4, 3))
    assert graph.op_kinds.count("sub") == 2
    assert graph.extra["tensors"]["role"].count("output") == 2


def test_nothing_of_the_module_is_changed():
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).train()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    from_torch(module, torch.ones(4, 3), mode="training_adam")
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert not module._forward_hooks
    assert all(parameter.grad is None for parameter in module.parameters())
