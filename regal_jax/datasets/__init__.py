"""Graphs to schedule: real ones and recipes."""

from regal_jax.datasets.pipelines import pipeline
from regal_jax.datasets.synthetic import regal_synthetic, regal_synthetic_dataset
from regal_jax.datasets.zoo.load import augmented, card, model_zoo

__all__ = [
    "augmented",
    "card",
    "model_zoo",
    "pipeline",
    "regal_synthetic",
    "regal_synthetic_dataset",
]
