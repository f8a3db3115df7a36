"""A graph as a sequence: a recurrent encoder of its ops (the GAS baseline of REGAL 4.2)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from regal_jax.graphs.features.placement import PolicyInputs
from regal_jax.policies.networks.message_passing import MLP


class SequenceEncoder(nn.Module):
    """float32[O, size]: op representations from an LSTM along the ops in index order.

    Importers make index order topological. An op is seen by its node features, which hold the sums
    of its input and output sizes; edges, their features included, are not used. The paper says
    neither which cell it uses nor in which direction: ours are two LSTMs, one from the first op and
    one from the last real op, so that each op is seen in the context of the whole sequence, like
    with message passing. A linear layer joins their states.

    Attributes:
      size: of the states, of each direction and of the result.
    """

    size: int = 32

    @nn.compact
    def __call__(self, inputs: PolicyInputs) -> jax.Array:
        ops = MLP(self.size, name="encode_node")(inputs.nodes)
        forward, backward = (
            nn.RNN(nn.OptimizedLSTMCell(self.size, name=name)) for name in ("forward", "backward")
        )
        state = nn.Bidirectional(forward, backward)(ops, seq_lengths=jnp.sum(inputs.real))
        return nn.Dense(self.size, name="join")(state)
