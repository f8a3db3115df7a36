"""Topoformer: orders of one device by a policy's priorities (neural_topological_ordering)."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import numpy as np

from regal_jax import registry
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.errors import OptionError
from regal_jax.graphs.batching import padded_pairs, padded_size
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.methods.ordering import PAPER, SAMPLES, check_problem, of_orders
from regal_jax.methods.pretrained import shipped_policy
from regal_jax.options import Budget, Options, Result
from regal_jax.policies import base
from regal_jax.policies.topological_order.policy import OrderingConfig, OrderingInputs
from regal_jax.search.orders import beam as orders_beam
from regal_jax.search.orders import dynamic_programming, sampling
from regal_jax.training import checkpoints
from regal_jax.training.ordering_inputs import ordering_inputs

GUIDED_WIDTH = 300
"""Of the dynamic programme that a policy guides: about as fast as 1,000 unguided, and better."""
GUIDES = (1.0, 0.0, 3.0)
"""Mean tensors that a standard deviation of priorities is worth, in the turns of guided search."""

Orders = Callable[[ComputationGraph, np.ndarray, Budget], list[np.ndarray]]


def topoformer_evaluations(num_ops: int, options: Options) -> int:
    """Orders, or the width of a search."""
    return GUIDED_WIDTH if options.decoding in (None, "guided") else SAMPLES


@registry.method(
    "topoformer",
    evaluations=topoformer_evaluations,
    reads_policy=True,
    decodings=("greedy", "sample", "beam", "guided"),
    learned=True,
    paper=PAPER,
)
def run_topoformer(problem: PlacementProblem, budget: Budget) -> Result:
    """One pass of the encoder, then orders by decoding (4.2).

    "greedy", the best of as many samples as evaluations, "beam" search of that width with
    state-collapsing, or "guided", the default (for policies without priorities it is "beam").
    """
    check_problem(problem, "topoformer")
    budget.check()
    decoding = budget.options.decoded_by(DECODINGS, "guided", name="topoformer")
    path = budget.options.policy or shipped_policy(problem.objective, "topoformer")
    params, config, _ = checkpoints.load_policy(path, OrderingConfig)
    if config.decoder != "nar":
        decoding = budget.options.decoding or "beam"
        budget = budget._replace(options=dataclasses.replace(budget.options, decoding=decoding))
        return of_orders(problem, budget, _drawn(params, config, problem.graph, budget))
    priorities = op_priorities(params, config, problem.graph)
    orders = DECODINGS[decoding](problem.graph, priorities, budget)
    return of_orders(problem, budget, orders)


def op_priorities(params, config: OrderingConfig, graph: ComputationGraph) -> np.ndarray:
    """float32[O]: a policy's priorities; graphs are padded so that few shapes are compiled."""
    if graph.num_ops == 0:
        return np.empty(0, np.float32)
    found = base.call(config, "priorities", params, _padded(graph, config))
    return np.asarray(found)[: graph.num_ops]


def stepwise_order(
    params, config: OrderingConfig, graph, inputs: OrderingInputs, budget: Budget
) -> np.ndarray:
    """int32[O]: the order of a beam as wide as the evaluations, of a policy without priorities.

    Two shapes are compiled: one state, as at first and after the deadline, and a full beam.
    """
    encoding, slots = base.call(config, "encode", params, inputs), len(inputs.features)

    def logits(ready, last, first):
        count = len(ready)
        more = (1 if count == 1 else budget.evaluations) - count
        ready = np.pad(ready, ((0, more), (0, slots - graph.num_ops)))
        last, first = np.pad(last, (0, more)), np.pad(first, (0, more))
        found = base.call(config, "logits", encoding, ready, last, first)
        return np.asarray(found)[:count, : graph.num_ops]

    width, deadline = budget.evaluations, budget.deadline
    found = orders_beam.beam_search(graph, logits, width=width, deadline=deadline)
    return np.asarray(found.order)


def greedy_orders(graph, priorities, budget: Budget) -> list[np.ndarray]:
    """The order that always runs the schedulable op of highest priority."""
    position = sampling.greedy_positions(sampling.op_successors(graph), priorities)
    return [sampling.order_of(position)]


def sampled_orders(graph, priorities, budget: Budget) -> list[np.ndarray]:
    """As many orders as evaluations."""
    rng = np.random.default_rng(budget.seed)
    uniforms = rng.random((budget.evaluations, graph.num_ops))
    successors = sampling.op_successors(graph)
    positions = sampling.sampled_positions(successors, priorities, uniforms)
    return [sampling.order_of(position) for position in positions]


def beam_orders(graph, priorities, budget: Budget) -> list[np.ndarray]:
    """The order of least peak memory in a beam as wide as the evaluations."""
    found = dynamic_programming.beam_search(
        graph, width=budget.evaluations, priorities=priorities, deadline=budget.deadline
    )
    return [np.asarray(found.order)]


def guided_orders(graph, priorities, budget: Budget) -> list[np.ndarray]:
    """The order of a beam as wide as in the paper, improved by an approximate dynamic programme as
    wide as the evaluations, that the policy guides (ours, ``dynamic_programming.improve``).

    A set's potential falls with the priorities of the ops that have run: at equal use, it is better
    to have run what should be early.
    """
    begin = beam_orders(graph, priorities, budget._replace(evaluations=SAMPLES))[0]
    if graph.num_ops == 0 or graph.num_tensors == 0:
        return [begin]
    spread = max(float(np.std(priorities)), 1e-9)
    bytes_early = (np.mean(priorities) - priorities) / spread * float(np.mean(graph.size))
    potentials = [None if weight == 0 else weight * bytes_early for weight in GUIDES]
    found = dynamic_programming.improve(
        graph, begin, width=budget.evaluations, potentials=potentials, deadline=budget.deadline
    )
    return [np.asarray(found.order)]


DECODINGS: dict[str, Orders] = {
    "greedy": greedy_orders,
    "sample": sampled_orders,
    "beam": beam_orders,
    "guided": guided_orders,
}


@functools.partial(jax.jit, static_argnames=("config", "count"))
def _samples(params, key, inputs, config: OrderingConfig, count: int):
    return registry.make_policy(config).sample(params, key, inputs, count)


def _padded(graph: ComputationGraph, config: OrderingConfig) -> OrderingInputs:
    pairs = padded_pairs(len(graph.op_pairs))
    return ordering_inputs(graph, config, padded_size(graph.num_ops), pairs)


def _drawn(params, config: OrderingConfig, graph, budget: Budget) -> list[np.ndarray]:
    """Orders of a policy that gives no priorities: sampled, the greedy one, or that of a beam."""
    if budget.options.decoding == "guided":
        raise OptionError(
            "an autoregressive policy is decoded by greedy, sample or beam, not by guided"
        )
    if graph.num_ops == 0:
        return [np.empty(0, np.int32)]
    inputs, key = _padded(graph, config), jax.random.key(budget.seed)
    if budget.options.decoding == "beam":
        return [stepwise_order(params, config, graph, inputs, budget)]
    if budget.options.decoding == "greedy":
        positions = base.call(config, "mode", params, inputs)[None]
    else:
        positions = _samples(params, key, inputs, config, budget.evaluations)
    return [sampling.order_of(row[: graph.num_ops]) for row in np.asarray(positions)]
