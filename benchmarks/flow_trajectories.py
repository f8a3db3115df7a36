"""Trajectories a second of policies over the construction of schedules, against peers in one run.

    python benchmarks/flow_trajectories.py
    python benchmarks/flow_trajectories.py --sizes 10 --trajectories 4 --repeats 1

Three tables, on random graphs and four devices: drawing with a uniform policy, that is the
environment alone, against a loop in PyTorch, torchgfn and gfnx; drawing with networks; and one
update of training (log-partition variance). Networks are ours, "encode_once" and "reencode", with
encoders of one size, and ``plain_flow.py``: the network of "reencode", with its parameters, in a
loop in PyTorch. Before anything is timed, all makespans are compared with the exact ones; and of
the networks, log-probabilities of the same schedules, the loss and its gradient's norm.

Contenders take turns; numbers are medians, ratios medians of paired ratios, on one core unless
--cores says otherwise. First calls, with compilation, are left out. "growth" is the exponent of the
time of a trajectory in the number of ops, from the size before. In large graphs, trajectories of
"reencode" are fewer, at most --work / ops^2, the same for PyTorch.

Ours is timed as it is used: padded to one of few sizes, with times of transfers, which the peers
leave out. What a peer lacks is left out with a message: PyTorch is in the extra ``torch``; torchgfn
2.4.1 and gfnx 0.0.1 pin old versions of numpy (below 2, 1.26.4), but run with newer ones if they
are installed with ``pip install --no-deps``, and beside them dill, flashbax, jax_tqdm,
linear-attention-transformer, tensordict, torch_geometric and tqdm. Their own training isn't
compared: both would run the networks of this file's other peers, in PyTorch or in JAX.
"""

import argparse
import importlib
import os
import time
from collections.abc import Callable

import instances
import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.datasets.makespan_graphs import makespan_graph
from regal_jax.environments.construction import env
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.platform import Platform
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.policies.gflownet import rollout, sampling
from regal_jax.policies.gflownet.policy import flow_inputs, flow_policy, padded_inputs
from regal_jax.policies.gflownet.types import FlowConfig, FlowLogits, FlowPolicy, masked_log_softmax
from regal_jax.search.placements import candidates
from regal_jax.training import flow, gflownet
from regal_jax.training.gflownet import FlowTraining

SIZE = {"size": 32, "heads": 1, "head_size": 16, "layers": 2}
NETWORKS = {
    "encode_once": FlowConfig(
        network="encode_once", feature_set="extended", guided=True, head_width=32, **SIZE
    ),
    "reencode": FlowConfig(network="reencode", **SIZE),
}
DEVICES = 4
TEMPERATURE = 0.1

Calls = dict[str, tuple[Callable, int]]
"""{contender: (a call, how many trajectories it makes)}."""


def main() -> None:
    flags = parse_flags()
    cores = sorted(os.sched_getaffinity(0))[: flags.cores]
    os.sched_setaffinity(0, cores)  # before JAX and PyTorch make their threads
    peers = {name: _installed(name) for name in ("torch", "gfn", "gfnx")}
    if peers["torch"]:
        import torch

        torch.set_num_threads(flags.cores)
    print(f"{instances.machine()}; {DEVICES} devices, {flags.trajectories} trajectories at once")
    graphs = [makespan_graph(family, 0, size) for family in flags.families for size in flags.sizes]
    if "environment" in flags.tables:
        print("\nA uniform policy: the environment alone")
        header = ["graph", "ops", "steps/s", "PyTorch / ours", "torchgfn / ours", "gfnx / ours"]
        instances.print_table(header, [environments(graph, peers, flags) for graph in graphs])
    for title, calls in (("drawing", drawing), ("training", training)):
        if title not in flags.tables:
            continue
        print(f"\nTrajectories of {title}")
        header = ["graph", "ops", "encode_once/s", "growth", "reencode/s", "growth", "PyTorch/s"]
        header += ["growth", "reencode / encode_once", "PyTorch / reencode"]
        instances.print_table(header, networks(graphs, calls, peers, flags))


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[25, 50, 100, 200])
    parser.add_argument("--families", nargs="+", default=["layered", "erdos_renyi"])
    tables = ["environment", "drawing", "training"]
    parser.add_argument("--tables", choices=tables, nargs="+", default=tables)
    parser.add_argument("--trajectories", type=int, default=100)
    parser.add_argument("--work", type=int, default=100_000, help="see above")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cores", type=int, default=1)
    return parser.parse_args()


def environments(graph: ComputationGraph, peers, flags) -> list[object]:
    """A row of the first table."""
    count = flags.trajectories
    calls: Calls = {"ours": (_uniformly(graph, count), count)}
    if peers["torch"]:
        import plain_flow

        environment = plain_flow.Environment(graph, DEVICES)
        calls["torch"] = (lambda: _arrays(plain_flow.sample_uniformly(environment, count)), count)
    if peers["torch"] and peers["gfn"]:
        import flow_environments

        calls["gfn"] = (flow_environments.with_torchgfn(graph, DEVICES, count), count)
    if peers["gfnx"]:
        import flow_environments

        calls["gfnx"] = (flow_environments.with_gfnx(graph, DEVICES, count), count)
    for call, _ in calls.values():
        check_makespans(graph, *call())
    seconds = paired(calls, flags.repeats)
    ratios = [_ratio(seconds, name, "ours") for name in ("torch", "gfn", "gfnx")]
    return [graph.family, graph.num_ops, graph.num_ops / np.median(seconds["ours"]), *ratios]


def networks(graphs: list[ComputationGraph], calls_of: Callable, peers, flags) -> list[list]:
    """The rows of the second or the third table."""
    rows, before, last = [], {}, None
    for graph in graphs:
        calls = calls_of(graph, peers, flags)
        seconds = paired(calls, flags.repeats)
        now = {name: float(np.median(values)) for name, values in seconds.items()}
        row: list[object] = [graph.family, graph.num_ops]
        for name in ("encode_once", "reencode", "torch"):
            if name not in now:
                row += ["-", "-"]
                continue
            grown = "-"
            if last is not None and last.family == graph.family:
                grown = np.log(now[name] / before[name]) / np.log(graph.num_ops / last.num_ops)
            row += [1 / now[name], grown]
        row += [_ratio(seconds, "reencode", "encode_once"), _ratio(seconds, "torch", "reencode")]
        rows.append(row)
        before, last = now, graph
    return rows


def drawing(graph: ComputationGraph, peers, flags) -> Calls:
    """Draws schedules, all of which have been compared with exact makespans once."""
    calls: Calls = {}
    for name, config in NETWORKS.items():
        count, params = _count(name, graph, flags), random_params(graph, config)
        inputs = padded_inputs(graph, Platform(DEVICES), config)
        options = {"policy": config, "num_devices": DEVICES, "count": count}

        def draw(params=params, inputs=inputs, options=options):
            key = jax.random.key(0)
            return sampling.draw(key, params, inputs, TEMPERATURE, **options)

        drawn = draw()
        real = drawn.op < graph.num_ops
        op, device = (column[real].reshape(count, -1) for column in (drawn.op, drawn.device))
        check_makespans(graph, op, device, drawn.makespan)
        calls[name] = (draw, count)
    if peers["torch"]:
        import plain_flow

        network, count = _checked_network(graph), _count("torch", graph, flags)
        check_makespans(graph, *_arrays(plain_flow.sample(network, count, TEMPERATURE)))
        calls["torch"] = (lambda: plain_flow.sample(network, count, TEMPERATURE), count)
    return calls


def training(graph: ComputationGraph, peers, flags) -> Calls:
    """One update of each network, always from the same parameters for ours."""
    calls: Calls = {}
    for name, config in NETWORKS.items():
        count = _count(name, graph, flags)
        plan = FlowTraining(trajectories=count, num_devices=DEVICES)
        inputs = padded_inputs(graph, Platform(DEVICES), config)
        state = gflownet.init_state(jax.random.key(0), inputs, config, plan)

        def update(state=state, inputs=inputs, config=config, plan=plan):
            arguments = (jax.random.key(0), state, inputs, jnp.float32(TEMPERATURE))
            found = gflownet.train_step(*arguments, policy=config, config=plan)
            return jax.block_until_ready(found)

        calls[name] = (update, count)
    if peers["torch"]:
        import plain_flow

        trainer, count = plain_flow.Trainer(_checked_network(graph)), _count("torch", graph, flags)
        calls["torch"] = (lambda: trainer.update(count, TEMPERATURE), count)
    return calls


def random_params(graph: ComputationGraph, config: FlowConfig):
    """Parameters far from a new policy's, whose last layers are 0."""
    inputs = flow_inputs(graph, Platform(DEVICES), config)
    params = flow_policy(config).init(jax.random.key(0), inputs, DEVICES)
    rng = np.random.default_rng(0)
    return jax.tree.map(
        lambda leaf: np.asarray(leaf + 0.1 * rng.standard_normal(leaf.shape), np.float32), params
    )


def _checked_network(graph: ComputationGraph):
    """PyTorch's network with our parameters. Its log-probabilities of a few schedules that ours
    draws, the loss and its gradient must equal ours."""
    import plain_flow

    config, count = NETWORKS["reencode"], 3
    params, policy = random_params(graph, config), flow_policy(config)
    inputs = flow_inputs(graph, Platform(DEVICES), config)
    options = {"num_devices": DEVICES}
    temperature = jnp.log(TEMPERATURE)
    drawn = jax.jit(
        lambda key: rollout.sample(policy, params, key, inputs, temperature, count=count, **options)
    )(jax.random.key(1))
    reward = (flow.speedups(inputs, drawn.makespan) - DEVICES) / TEMPERATURE

    def loss(params):
        arguments = (policy, params, inputs, temperature, drawn.op, drawn.device)
        found = rollout.likelihood(*arguments, **options)
        forward, backward = found.forward.sum(1), found.backward.sum(1)
        return jnp.var(reward + backward - forward), (forward, backward)

    (value, sums), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    norm = np.sqrt(sum(np.sum(np.square(leaf)) for leaf in jax.tree.leaves(gradient)))

    import torch

    network = plain_flow.Network(params, inputs, plain_flow.Environment(graph, DEVICES))
    actions = [torch.from_numpy(np.array(column)).long() for column in (drawn.op, drawn.device)]
    *_, makespan, forward, backward = plain_flow.rollout(network, count, TEMPERATURE, actions)
    for ours, theirs in zip((drawn.makespan, *sums), (makespan, forward, backward), strict=True):
        np.testing.assert_allclose(theirs.detach().numpy(), ours, rtol=1e-4, atol=1e-3)
    found = plain_flow.loss_of(network, count, TEMPERATURE, actions)
    found.backward()
    np.testing.assert_allclose(found.item(), value, rtol=1e-3)
    used = [leaf.grad.square().sum().item() for leaf in network.leaves if leaf.grad is not None]
    np.testing.assert_allclose(np.sqrt(sum(used)), norm, rtol=1e-3)
    return network


def check_makespans(graph: ComputationGraph, op, device, makespan) -> None:
    """AssertionError unless schedules' makespans are the exact ones, but for float32's rounding."""
    op, device = np.asarray(op, np.int32), np.asarray(device, np.int32)
    placement = np.empty_like(op)
    np.put_along_axis(placement, op, device, axis=1)
    problem = PlacementProblem(graph, DEVICES, "makespan")
    exact = candidates.makespans(problem, candidates.Candidates(placement, op))
    np.testing.assert_allclose(makespan, exact, rtol=1e-5)


def paired(calls: Calls, repeats: int) -> dict[str, np.ndarray]:
    """Seconds a trajectory of each call, float[repeats]; calls alternate, after one for warmth."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(repeats + 1):
        for name, (call, count) in calls.items():
            begin = time.perf_counter()
            call()
            if repeat:
                seconds[name].append((time.perf_counter() - begin) / count)
    return {name: np.array(values) for name, values in seconds.items()}


def _uniformly(graph: ComputationGraph, count: int) -> Callable:
    """Ours: the sampler of all policies, with the actions of "reencode" and no network."""
    inputs = padded_inputs(graph, Platform(DEVICES), NETWORKS["reencode"])

    def logits(params, seen, inputs, state) -> FlowLogits:
        valid = env.ready(inputs.problem, state)[:, None] & jnp.ones(DEVICES, bool)
        forward = masked_log_softmax(jnp.zeros(valid.shape), valid)
        return FlowLogits(jnp.arange(len(valid)), forward, jnp.zeros(DEVICES), jnp.float32(0))

    policy = FlowPolicy(lambda *_: None, lambda *_: None, logits, symmetric=False)

    @jax.jit
    def draw(key, inputs):
        options = {"num_devices": DEVICES, "count": count}
        return rollout.sample(policy, None, key, inputs, jnp.float32(0), **options)

    def run():
        drawn = jax.tree.map(np.asarray, draw(jax.random.key(0), inputs))
        real = drawn.op < graph.num_ops
        columns = [column[real].reshape(count, -1) for column in (drawn.op, drawn.device)]
        return *columns, drawn.makespan

    return run


def _count(name: str, graph: ComputationGraph, flags) -> int:
    """Trajectories at once: fewer where every state of a large graph is encoded."""
    most = flags.trajectories if name == "encode_once" else flags.work // graph.num_ops**2
    return max(2, min(flags.trajectories, most))


def _arrays(tensors) -> list[np.ndarray]:
    return [np.asarray(tensor) for tensor in tensors]


def _ratio(seconds: dict[str, np.ndarray], name: str, other: str) -> object:
    return float(np.median(seconds[name] / seconds[other])) if name in seconds else "-"


def _installed(package: str) -> bool:
    try:
        importlib.import_module(package)
    except ImportError as error:
        print(f"{package} is left out: {error}")
        return False
    return True


if __name__ == "__main__":
    main()
