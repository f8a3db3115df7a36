"""A GFlowNet over schedules as one writes it in PyTorch: a loop over steps of all trajectories.

The peer of ``flow_trajectories.py``: the environment without transfer times, which are 0 there, and
the network "reencode" with the parameters of ours: a Topoformer of seven kinds of heads, dense
masks, PyTorch's fused attention. States are new tensors a step, as differentiation needs them.
"""

import dataclasses
import math

import numpy as np
import torch
from torch.nn import functional

from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.features.relations import AFTER, BEFORE, INCOMPARABLE
from regal_jax.policies.gflownet.policy import FlowInputs
from regal_jax.policies.networks.topoformer import SEVEN


@dataclasses.dataclass(frozen=True)
class State:
    """B partial schedules: device [B, O], -1 if not in it; start [B, O]; last [B, D], the op that
    ran last, -1 if none; free [B, D]; missing, readers [B, O]; arrival [B, O]."""

    device: torch.Tensor
    start: torch.Tensor
    last: torch.Tensor
    free: torch.Tensor
    missing: torch.Tensor
    readers: torch.Tensor
    arrival: torch.Tensor


class Environment:
    """Adding ops to the ends of devices."""

    def __init__(self, graph: ComputationGraph, num_devices: int):
        before = np.zeros((graph.num_ops, graph.num_ops), np.float32)
        before[tuple(graph.op_pairs.T)] = 1.0
        self.before = torch.from_numpy(before)
        self.duration = torch.from_numpy(graph.duration.astype(np.float32))
        self.num_devices = num_devices

    def reset(self, count: int) -> State:
        shape = (count, len(self.duration))
        devices = (count, self.num_devices)
        return State(
            device=torch.full(shape, -1),
            start=torch.full(shape, -1.0),
            last=torch.full(devices, -1),
            free=torch.zeros(devices),
            missing=self.before.sum(0).repeat(count, 1),
            readers=torch.zeros(shape),
            arrival=torch.zeros(shape),
        )

    def step(self, state: State, op: torch.Tensor, device: torch.Tensor) -> State:
        rows = torch.arange(len(op))
        start = torch.maximum(state.arrival[rows, op], state.free[rows, device])
        finish = start + self.duration[op]
        reads = self.before[op]
        there = torch.maximum(state.arrival, reads * finish[:, None])
        return State(
            device=state.device.index_put((rows, op), device),
            start=state.start.index_put((rows, op), start),
            last=state.last.index_put((rows, device), op),
            free=state.free.index_put((rows, device), finish),
            missing=state.missing - reads,
            readers=state.readers + self.before.T[op],
            arrival=there,
        )

    def addable(self, state: State) -> torch.Tensor:
        """bool [B, O]."""
        return (state.missing == 0) & (state.device < 0)

    def removable(self, state: State) -> torch.Tensor:
        """bool [B, D]: devices whose last op no other one reads from."""
        readers = state.readers.gather(1, state.last.clamp(min=0))
        return (state.last >= 0) & (readers == 0)


class Network:
    """Log-probabilities of a state's actions: forward [B, O * D], backward [B, D]."""

    def __init__(self, params, inputs: FlowInputs, environment: Environment):
        self.environment = environment
        self.leaves: list[torch.Tensor] = []
        self.params = self._tensors(params["params"])
        self.features = torch.from_numpy(np.asarray(inputs.features)).float()
        self.related = _related(inputs)

    def _tensors(self, tree):
        if isinstance(tree, dict):
            return {name: self._tensors(branch) for name, branch in tree.items()}
        self.leaves.append(torch.from_numpy(np.array(tree)).requires_grad_())
        return self.leaves[-1]

    def __call__(self, state: State, log_temperature: float):
        params, environment = self.params, self.environment
        condition = torch.full((1,), log_temperature)
        for layer in ("Dense_0", "Dense_1"):
            condition = torch.relu(_dense(condition, params["temperature"][layer]))
        hidden = self._encode(self._features(state), condition)
        adding = _mlp(hidden, params["forward"])
        taking = _mlp(hidden, params["backward"])[..., 0]
        can = environment.addable(state)[..., None].expand_as(adding)
        forward = adding.masked_fill(~can, -math.inf).flatten(1)
        ends = taking.gather(1, state.last.clamp(min=0))
        backward = ends.masked_fill(~environment.removable(state), -math.inf)
        return forward.log_softmax(1), backward.log_softmax(1)

    def _features(self, state: State) -> torch.Tensor:
        environment = self.environment
        scheduled = state.device >= 0
        start = torch.where(scheduled, state.start / environment.duration.mean(), -1.0)
        device = functional.one_hot(state.device + 1, environment.num_devices + 1)[..., 1:]
        taken = torch.zeros_like(state.start).scatter_add(
            1, state.last.clamp(min=0), environment.removable(state).float()
        )
        flags = torch.stack([environment.addable(state), taken, scheduled], dim=-1)
        columns = [self.features.expand(len(start), -1, -1), start[..., None], device, flags]
        return torch.cat([column.float() for column in columns], dim=-1)

    def _encode(self, features: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        params = self.params["encoder"]
        state = _dense(features, params["embed"])
        for layer in range(sum(name.startswith("attention") for name in params)):
            first, second = 2 * layer, 2 * layer + 1
            normed = _norm(state, params[f"LayerNorm_{first}"])
            state = state + self._attend(normed, params[f"attention_{layer}"])
            hidden = _dense(_norm(state, params[f"LayerNorm_{second}"]), params[f"Dense_{first}"])
            film = params[f"film_{layer}"]
            hidden = _dense(condition, film["scale"]) * hidden + _dense(condition, film["shift"])
            state = state + _dense(torch.relu(hidden), params[f"Dense_{second}"])
        return state

    def _attend(self, state: torch.Tensor, params) -> torch.Tensor:
        """All heads at once: they differ in their masks alone."""
        ends = [params[f"{name}_ends"] for name in SEVEN]
        query, key = self._project(state, ends).chunk(2, dim=-1)
        value = self._project(state, [params[f"{name}_value"] for name in SEVEN])
        heads = query.shape[1] // len(SEVEN)
        mask = self.related.repeat_interleave(heads, 0)
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return _dense(found.transpose(1, 2).flatten(2), params["join"])

    def _project(self, state: torch.Tensor, layers) -> torch.Tensor:
        """float[B, heads, O, width]: linear layers side by side, as one product."""
        kernel = torch.cat([layer["kernel"] for layer in layers], dim=1)
        bias = torch.cat([layer["bias"] for layer in layers])
        found = state @ kernel.flatten(1) + bias.flatten()
        return found.unflatten(-1, bias.shape).transpose(1, 2)


def rollout(network: Network, count: int, temperature: float, actions=None):
    """Schedules, drawn or given as (op, device) [B, O]: op, device, makespan [B], and the sums of
    the log-probabilities forward and backward [B]."""
    environment, log_temperature = network.environment, math.log(temperature)
    state, chosen = environment.reset(count), []
    forward, backward = torch.zeros(count), torch.zeros(count)
    adding, _ = network(state, log_temperature)
    for step in range(len(environment.duration)):
        if actions is None:
            action = torch.multinomial(adding.detach().exp(), 1)[:, 0]
        else:
            action = actions[0][:, step] * environment.num_devices + actions[1][:, step]
        op, device = action // environment.num_devices, action % environment.num_devices
        forward = forward + adding.gather(1, action[:, None])[:, 0]
        state = environment.step(state, op, device)
        adding, taking = network(state, log_temperature)
        backward = backward + taking.gather(1, device[:, None])[:, 0]
        chosen.append((op, device))
    op, device = (torch.stack(column, dim=1) for column in zip(*chosen, strict=True))
    return op, device, state.free.amax(1), forward, backward


@torch.no_grad()
def sample(network: Network, count: int, temperature: float):
    """op, device [B, O] and makespan [B] of schedules. The last state needs no network."""
    environment, log_temperature = network.environment, math.log(temperature)
    state, chosen = environment.reset(count), []
    for _ in range(len(environment.duration)):
        adding, _ = network(state, log_temperature)
        action = torch.multinomial(adding.exp(), 1)[:, 0]
        op, device = action // environment.num_devices, action % environment.num_devices
        state = environment.step(state, op, device)
        chosen.append((op, device))
    op, device = (torch.stack(column, dim=1) for column in zip(*chosen, strict=True))
    return op, device, state.free.amax(1)


@torch.no_grad()
def sample_uniformly(environment: Environment, count: int):
    """The same with all valid actions equally likely, without a network."""
    state, chosen = environment.reset(count), []
    for _ in range(len(environment.duration)):
        can = environment.addable(state)[..., None].expand(-1, -1, environment.num_devices)
        action = torch.multinomial(can.flatten(1).float(), 1)[:, 0]
        op, device = action // environment.num_devices, action % environment.num_devices
        state = environment.step(state, op, device)
        chosen.append((op, device))
    op, device = (torch.stack(column, dim=1) for column in zip(*chosen, strict=True))
    return op, device, state.free.amax(1)


def loss_of(network: Network, count: int, temperature: float, actions=None) -> torch.Tensor:
    """The log-partition variance loss, differentiable: the rollout keeps what gradients need."""
    environment = network.environment
    _, _, makespan, forward, backward = rollout(network, count, temperature, actions)
    speedup = environment.duration.sum() / makespan
    zeta = (speedup - environment.num_devices) / temperature + backward - forward
    return zeta.var(unbiased=False)


class Trainer:
    """Updates by Adam behind a clip of the gradient's norm at 1."""

    def __init__(self, network: Network):
        self.network = network
        self.optimizer = torch.optim.Adam(network.leaves, lr=1e-3)

    def update(self, count: int, temperature: float) -> float:
        self.optimizer.zero_grad()
        loss = loss_of(self.network, count, temperature)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.leaves, 1.0)
        self.optimizer.step()
        return loss.item()


def _dense(x: torch.Tensor, layer) -> torch.Tensor:
    return x @ layer["kernel"] + layer["bias"]


def _mlp(x: torch.Tensor, layers) -> torch.Tensor:
    return _dense(torch.relu(_dense(x, layers["Dense_0"])), layers["Dense_1"])


def _norm(x: torch.Tensor, layer) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:], layer["scale"], layer["bias"], eps=1e-6)


def _related(inputs: FlowInputs) -> torch.Tensor:
    """bool [7, O, O]: whether op i attends to op j, for each of ``SEVEN``."""
    relations = inputs.relations
    code = torch.from_numpy(np.asarray(relations.code))
    ends = np.stack([relations.senders, relations.receivers])
    masks = {
        "closure": code == BEFORE,
        "closure_back": code == AFTER,
        "incomparable": code == INCOMPARABLE,
    }
    for name, used in (("reduction", relations.reduced), ("redundant", ~relations.reduced)):
        forth = torch.zeros(code.shape, dtype=torch.bool)
        senders, receivers = torch.from_numpy(ends[:, used]).long()
        forth[receivers, senders] = True
        masks |= {name: forth, f"{name}_back": forth.T}
    return torch.stack([masks[name] for name in SEVEN])
