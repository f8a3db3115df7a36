"""Small PyTorch modules of the kinds that matter, with example inputs."""

import torch
from torch import nn


class Residual(nn.Module):
    """Convolutions in place, batch norm, a grouped convolution, pooling, a shortcut."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8))
        self.branch = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.stem(x).relu_(), 2)
        x = x + self.branch(x)
        return self.head(x.relu_().mean((2, 3)))


class Branches(nn.Module):
    """Parallel branches joined by concatenation, and a split."""

    def __init__(self):
        super().__init__()
        self.paths = nn.ModuleList(nn.Conv2d(4, 4, size, padding=size // 2) for size in (1, 3, 5))

    def forward(self, x):
        joined = torch.cat([path(x) for path in self.paths], 1)
        low, high = joined.chunk(2, 1)
        return low * high.sigmoid(), joined.amax((2, 3))


class Attention(nn.Module):
    """One pre-norm Transformer layer with a causal mask."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.mT / 8**0.5).masked_fill(mask, float("-inf")).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class Recurrent(nn.Module):
    """A GRU cell over six steps, and an embedding."""

    def __init__(self):
        super().__init__()
        self.embedding, self.cell = nn.Embedding(11, 6), nn.GRUCell(6, 8)

    def forward(self, tokens):
        state = torch.zeros(len(tokens), 8)
        for step in self.embedding(tokens).unbind(1):
            state = self.cell(step, state)
        return state


MODULES = {
    "mlp": lambda: (
        nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)),
        (torch.randn(4, 6),),
    ),
    "residual": lambda: (Residual(), (torch.randn(2, 3, 12, 12),)),
    "branches": lambda: (Branches(), (torch.randn(2, 4, 6, 6),)),
    "attention": lambda: (Attention(), (torch.randn(2, 5, 16),)),
    "recurrent": lambda: (Recurrent(), (torch.randint(11, (3, 6)),)),
}
"""Name -> a function that makes (module, example inputs)."""
