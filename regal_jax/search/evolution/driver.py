"""BRKGA in a few calls of jitted parts, so that it can stop early and tell how far it is."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from regal_jax.search.evolution import brkga
from regal_jax.search.evolution.brkga import BRKGAConfig, BRKGAState

RACE = 4
"""Generations of a search until it is compared: with the default population 460 evaluations."""
_CHUNK = 20
"""Generations between two reports of progress."""


class Parts(NamedTuple):
    """The pieces of one search, which their maker jits.

    Attributes:
      init: (key, generations) -> (state, history float[generations + 1]), as in ``brkga.search``.
      advance: (key, state, history, first, last) -> (state, history), as ``brkga.evolve``.
      finish: (key, state, remainder) -> state, after a generation of so many newcomers.
    """

    init: Callable[[Any, int], tuple[BRKGAState, jax.Array]]
    advance: Callable[[Any, BRKGAState, jax.Array, int, int], tuple[BRKGAState, jax.Array]]
    finish: Callable[[Any, BRKGAState, int], BRKGAState]


class Evolved(NamedTuple):
    """What a search found.

    Attributes:
      chromosome: float[genes], the best.
      points: evaluations at each entry of the history.
      history: float[points], the best cost so far.
      state: the last population, or populations.
    """

    chromosome: np.ndarray
    points: list[int]
    history: np.ndarray
    state: BRKGAState


def run(
    key,
    parts: Parts,
    config: BRKGAConfig,
    evaluations: int,
    *,
    out_of_time: Callable[[], bool],
    on_progress: Callable[[int, float], None],
    to_beat: float = float("inf"),
) -> Evolved:
    """BRKGA for exactly ``evaluations``, or fewer when out of time.

    Args:
      key: random key.
      out_of_time: asked every few generations.
      on_progress: called with the evaluations and the best cost so far.
      to_beat: a cost; the search ends after RACE generations if it hasn't reached it.

    Raises:
      OptionError: if the evaluations are below the initial population.
    """
    brkga.check_config(config, evaluations)
    generations, remainder = brkga.split_budget(evaluations, config)
    init_key, evolve_key, last_key = jax.random.split(key, 3)
    state, history = parts.init(init_key, generations)
    on_progress(config.initial, float(history[0]))
    done, beaten = 0, False
    while done < generations and not (beaten or out_of_time()):
        raced = done == 0 and to_beat < float("inf")
        last = min(done + (RACE if raced else _CHUNK), generations)
        state, history = parts.advance(evolve_key, state, history, done, last)
        done = last
        on_progress(config.initial + done * config.newcomers, float(history[done]))
        beaten = raced and float(history[done]) > to_beat
    spent = config.initial + done * config.newcomers
    history = history[: done + 1]
    if done == generations and remainder and not beaten:
        state = parts.finish(last_key, state, remainder)
        history = jnp.append(history, jnp.min(state.costs))
        spent = evaluations
        on_progress(spent, float(history[-1]))
    points = brkga.history_evaluations(spent, config)
    return Evolved(np.asarray(state.best()[0]), points, np.asarray(history), state)
