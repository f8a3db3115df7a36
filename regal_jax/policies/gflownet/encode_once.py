"""A cheaper network, ours: the graph is encoded once, states by small heads over their actions.

An action (op, device) is scored from the op's representation, what the state's ops look like on
average, the device's last op, and numbers that say what the action leads to: when the op starts,
how long the device idles before, how much later than on the best device that is, how far the
lower bound on the makespan rises. All but the op's representation is computed for the ops that are
ready, at most ``FlowInputs.window`` of them. Devices are treated alike, whatever their names.

Times are in units of ``FlowInputs.bound``. The temperature scales and shifts the first layers of
the heads of actions (eq. 30), as in the encoder; that of the flow sees it in what the encoder made
of the ops.
"""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.environments.construction import env
from regal_jax.environments.construction.env import PartialSchedule
from regal_jax.policies.gflownet.types import (
    FlowConfig,
    FlowInputs,
    FlowLogits,
    FlowPolicy,
    masked_log_softmax,
)
from regal_jax.policies.networks.message_passing import MLP
from regal_jax.policies.networks.topoformer import Encoder, Modulation, TemperatureEmbedding

MOST_GUIDE = 30.0
"""Guides beyond this are as good as impossible: they are squashed there."""

FIRST_GUIDES = (0.0, 1.0, 1.0)
"""Weights of ``Options.guides`` of a new guided policy: list scheduling by critical path, more or
less, as the temperature says. On ten graphs of 50 ops at temperature 0.005 the best of 200 samples
is 0.6 % above the list schedule's speedup; with a weight on the bound, 0.3 to 4 % below."""


class Encoding(NamedTuple):
    """What all states of a graph share.

    Attributes:
      added, taken: float32[O, H], parts of the ops in the heads' first layers.
      chain: float32[O, H], part of a device's last op. bag: float32[O, H], to be averaged.
      condition: float32[S], the embedded temperature. log_temperature: float32[].
    """

    added: jax.Array
    taken: jax.Array
    chain: jax.Array
    bag: jax.Array
    condition: jax.Array
    log_temperature: jax.Array


class Options(NamedTuple):
    """The actions of a state, and numbers of them; times in units of the bound.

    Attributes:
      op: int32[W]. valid: bool[W, D].
      features: float32[W, D, 7].
      guides: float32[W, D, 3], how much worse than the best one an action is, at most 0: in the
        speedup that the lower bound leaves after it, in the op's upward rank, in its start.
      devices: float32[D, 4], when each is free, after the first and before the last one; whether it
        is empty, and whether nothing reads from its last op. summary: float32[6], of the state.
    """

    op: jax.Array
    valid: jax.Array
    features: jax.Array
    guides: jax.Array
    devices: jax.Array
    summary: jax.Array


class _Graph(nn.Module):
    """The encoding of a graph and a temperature."""

    config: FlowConfig

    @nn.compact
    def __call__(self, features, relations, log_temperature) -> Encoding:
        config = self.config
        condition = TemperatureEmbedding(config.size, name="temperature")(log_temperature)
        state = Encoder(config, name="encoder")(features, relations, condition)
        state = nn.LayerNorm()(state)
        added, taken, chain, bag = jnp.split(nn.Dense(4 * config.head_width)(state), 4, axis=1)
        return Encoding(added, taken, chain, bag, condition, log_temperature)


class _Heads(nn.Module):
    """float[W, D], float[D], float[]: logits of adding, of taking away, and the state's value."""

    config: FlowConfig

    @nn.compact
    def __call__(self, encoding: Encoding, options: Options, state: PartialSchedule):
        width = self.config.head_width
        dense = lambda x, name: nn.Dense(width, name=name)(x)  # noqa: E731
        context = dense(
            jnp.concatenate([_bags(encoding, options, state), options.summary]), "state"
        )
        chain = jnp.where((state.last >= 0)[:, None], encoding.chain[state.last], 0.0)
        device = dense(options.devices, "device") + chain + context
        op = encoding.added.at[options.op].get(mode="fill", fill_value=0)
        guides = _squashed(options.guides / jnp.exp(encoding.log_temperature))
        features = jnp.concatenate([options.features, guides / MOST_GUIDE], axis=-1)
        action = dense(features, "action") + op[:, None] + device
        forward = self._score(action, encoding, "forward")
        if self.config.guided:
            forward += guides @ self.param("guides", lambda _: jnp.array(FIRST_GUIDES))
        backward = self._score(device + encoding.taken[state.last], encoding, "backward")
        flow = MLP(width, 1, zero_last=True, name="flow")(context)[0]
        return forward, backward, flow

    def _score(self, first: jax.Array, encoding: Encoding, name: str) -> jax.Array:
        """Numbers from a first layer's sums, float[..., H] -> float[...]."""
        width = self.config.head_width
        hidden = nn.relu(Modulation(width, name=f"{name}_film")(first, encoding.condition))
        return MLP(width, 1, zero_last=True, name=name)(hidden)[..., 0]


def policy(config: FlowConfig) -> FlowPolicy:
    """The policy of a configuration with this network."""
    graph, heads = _Graph(config), _Heads(config)

    def init(key, inputs: FlowInputs, num_devices: int):
        graph_key, heads_key = jax.random.split(key)
        arguments = inputs.features, inputs.relations, jnp.float32(0.0)
        found, params = graph.init_with_output(graph_key, *arguments)
        state = env.empty(inputs.problem, num_devices)
        return {
            "graph": params,
            "heads": heads.init(heads_key, found, options(inputs, state, config), state),
        }

    def encode(params, inputs: FlowInputs, log_temperature):
        return graph.apply(params["graph"], inputs.features, inputs.relations, log_temperature)

    def logits(params, encoding: Encoding, inputs: FlowInputs, state: PartialSchedule):
        found = options(inputs, state, config)
        scores: Any = heads.apply(params["heads"], encoding, found, state)
        adding, taking, flow = scores
        return FlowLogits(
            op=found.op,
            forward=masked_log_softmax(adding, found.valid),
            backward=masked_log_softmax(taking, env.removable(state)),
            flow=flow,
        )

    return FlowPolicy(init, encode, logits, config.symmetric)


def options(inputs: FlowInputs, state: PartialSchedule, config: FlowConfig) -> Options:
    """The actions of a state."""
    problem, bound = inputs.problem, inputs.bound
    num_ops, num_devices = state.arrival.shape
    is_ready = env.ready(problem, state)
    op = jnp.nonzero(is_ready, size=len(inputs.window), fill_value=num_ops)[0]
    open_ = env.openable(state, symmetric=config.symmetric)
    valid = (op < num_ops)[:, None] & open_

    def rows(table):
        return jnp.asarray(table).at[op].get(mode="fill", fill_value=0)

    free = env.free(problem, state) / bound
    start = jnp.maximum(rows(state.arrival) / bound, free)
    tables = problem.duration, inputs.tail, inputs.rank
    duration, tail, rank = (rows(table)[:, None] / bound for table in tables)
    late = start - jnp.min(jnp.where(open_, start, jnp.inf), axis=1, keepdims=True)
    longest = jnp.max(jnp.where(valid, tail, 0.0))
    highest = jnp.max(jnp.where(valid, rank, 0.0))
    rest = jnp.sum(jnp.where(state.device < 0, problem.duration, 0.0)) / bound
    load, end = (jnp.sum(free) + rest) / num_devices, jnp.max(free)
    first = jnp.min(jnp.where(valid, start, jnp.inf))
    gain = _gain(inputs, start, tail, free, load, valid)
    guides = [gain, jnp.broadcast_to(rank - highest, start.shape), first - start]
    features = [start - free, late, start + tail - load, start - end, longest - tail, duration]
    features.append(state.last < 0)
    columns = [jnp.broadcast_to(column, start.shape) for column in features]
    scheduled = jnp.sum(state.device >= 0) / jnp.maximum(problem.num_ops, 1)
    count = jnp.minimum(jnp.sum(is_ready) / num_devices, 4.0)
    return Options(
        op=op,
        valid=valid,
        features=jnp.where(valid[..., None], jnp.stack(columns, axis=-1), 0.0),
        guides=jnp.where(valid[..., None], jnp.stack(guides, axis=-1), 0.0),
        devices=_devices(state, free),
        summary=jnp.stack([scheduled, end, load, rest / num_devices, end - load, count]),
    )


def _gain(inputs: FlowInputs, start, tail, free, load, valid) -> jax.Array:
    """float[W, D]: the speedup that the lower bound leaves after an action, less that after the
    best."""
    after = jnp.maximum(start + tail, load + (start - free) / len(free))
    after = jnp.maximum(after, jnp.max(free))
    speedup = jnp.sum(inputs.problem.duration) / inputs.bound / jnp.maximum(after, 1e-30)
    return speedup - jnp.max(jnp.where(valid, speedup, -jnp.inf))


def _devices(state: PartialSchedule, free: jax.Array) -> jax.Array:
    """float32[D, 4], see ``Options``."""
    unused = state.last < 0
    is_leaf = unused | env.removable(state)
    columns = [free - jnp.min(free), jnp.max(free) - free, unused, is_leaf]
    return jnp.stack([jnp.asarray(column, jnp.float32) for column in columns], axis=-1)


def _squashed(guides: jax.Array) -> jax.Array:
    return MOST_GUIDE * jnp.tanh(guides / MOST_GUIDE)


def _bags(encoding: Encoding, options: Options, state: PartialSchedule) -> jax.Array:
    """float[2 H]: means over the ops that are in the schedule, and over those that are ready."""
    scheduled = (state.device >= 0).astype(encoding.bag.dtype)
    inside = scheduled @ encoding.bag / jnp.maximum(jnp.sum(scheduled), 1.0)
    is_ready = jnp.any(options.valid, axis=1)
    rows = encoding.bag.at[options.op].get(mode="fill", fill_value=0)
    front = jnp.sum(rows, axis=0) / jnp.maximum(jnp.sum(is_ready), 1)
    return jnp.concatenate([inside, front])
