"""Graphs to schedule: real ones and recipes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regal_jax.datasets.pipelines import pipeline
    from regal_jax.datasets.synthetic import regal_synthetic, regal_synthetic_dataset
    from regal_jax.datasets.zoo.load import augmented, card, model_zoo
else:
    from regal_jax import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            "pipelines": "pipeline",
            "synthetic": "regal_synthetic regal_synthetic_dataset",
            "zoo.load": "augmented card model_zoo",
        },
    )

__all__ = [
    "augmented",
    "card",
    "model_zoo",
    "pipeline",
    "regal_synthetic",
    "regal_synthetic_dataset",
]
