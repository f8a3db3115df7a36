"""Pipeline-parallel training: the ops of every stage of a model on every microbatch.

The graphs that these schedules are for (``search.placements.pipelines`` has the schedules):
- GPipe (Huang et al. 2019, arXiv 1811.06965);
- 1F1B, also PipeDream-Flush (Narayanan et al. 2021, arXiv 2006.09503, 2104.04473);
- zero bubble (Qi et al. 2023, arXiv 2401.10241), which splits the backward pass of a stage in B,
  the gradient of its input, and W, the gradient of its weights.
"""

from typing import Literal

import numpy as np

from regal_jax.errors import OptionError
from regal_jax.graphs.computation_graph import ComputationGraph

Pass = Literal["F", "B", "W"]
"""Forward; gradient of the stage's input (or the whole backward pass); gradient of its weights."""

KINDS = {"F": "forward", "B": "backward", "W": "weight_gradient"}


def op_name(kind: Pass, stage: int, microbatch: int) -> str:
    """The name of an op in the graph, such as ``F(0,3)``: stage 0, microbatch 3."""
    return f"{kind}({stage},{microbatch})"


def pipeline(
    stages: int,
    microbatches: int,
    *,
    forward: float = 1.0,
    backward: float = 1.0,
    weight_gradient: float = 1.0,
    activation_bytes: int,
    kept_bytes: int | None = None,
    weight_bytes: int = 0,
    boundary_bytes: int = 0,
    split_backward: bool = True,
) -> ComputationGraph:
    """One training step of a model cut into ``stages`` p, on ``microbatches`` m.

    F(s, i) makes what the backward pass reads, and the activation that F(s+1, i) reads; B(s, i)
    makes the gradient that B(s-1, i) reads. W(s, i) waits for B(s, i), and adds to the gradient of
    the stage's weights in place: a persistent tensor of ``weight_bytes`` without a producer, that
    all W(s, i) read, in any order since sums commute. F and B read the stage's parameters, of as
    many bytes. Without ``split_backward``, B does the work of W, too: 2 p m ops, else 3 p m. There
    is no update.

    Stored activations are M_B = ``activation_bytes`` until B has run, then M_W = ``kept_bytes``
    until W has run, then 0 (Qi et al., section 2.3): two tensors, one read by B alone. Boundary
    activations are freed when the next stage has read them; count in M_B what a stage keeps of its
    input.

    Ops are numbered microbatch by microbatch, F by stage, then B and W backwards: a program order
    of one microbatch after another. They are named as by ``op_name``; ``extra["ops"]`` has columns
    ``phase``, ``stage`` and ``microbatch``; ``extra["tensors"]`` has ``role``.

    Args:
      forward, backward, weight_gradient: durations of F, B and W [us].
      activation_bytes, kept_bytes: M_B and M_W; M_W is M_B by default, nothing freed by B.
      weight_bytes, boundary_bytes: of a stage's parameters; of an activation or gradient between
        stages.

    Raises:
      OptionError: for less than one stage or microbatch, or M_W > M_B.
    """
    kept_bytes = activation_bytes if kept_bytes is None else kept_bytes
    if stages < 1 or microbatches < 1:
        raise OptionError(f"needs a stage and a microbatch, got {stages} and {microbatches}")
    if not 0 <= kept_bytes <= activation_bytes:
        raise OptionError(f"kept_bytes is {kept_bytes}, not in 0..{activation_bytes}")
    sizes = {"early": activation_bytes - kept_bytes, "late": kept_bytes}
    draft = _Draft(stages, microbatches, split_backward)
    for stage in range(stages):
        draft.add_weights(stage, weight_bytes)
        for microbatch in range(microbatches):
            draft.add_stored(stage, microbatch, **sizes)
            draft.add_boundaries(stage, microbatch, boundary_bytes)
    times = {"F": forward, "B": backward, "W": weight_gradient}
    if not split_backward:
        times["B"] += weight_gradient
    return draft.graph(times, f"pipeline_{stages}x{microbatches}")


class _Draft:
    """The ops of a pipeline, and its tensors as far as they are written down."""

    def __init__(self, stages: int, microbatches: int, split_backward: bool):
        self.stages, self.microbatches = stages, microbatches
        self.weight_pass: Pass = "W" if split_backward else "B"
        back: tuple[Pass, ...] = ("B", "W") if split_backward else ("B",)
        self.ops: list[tuple[Pass, int, int]] = []
        for i in range(microbatches):
            self.ops += [("F", s, i) for s in range(stages)]
            self.ops += [(kind, s, i) for s in reversed(range(stages)) for kind in back]
        self.index = {op: number for number, op in enumerate(self.ops)}
        self.rows: list[tuple[int, int, bool, list[int], str]] = []

    def add(self, producer: int, size: int, consumers: list[int], role: str = "") -> None:
        """A tensor; with a role, persistent."""
        self.rows.append((producer, size, role != "", consumers, role))

    def add_weights(self, stage: int, size: int) -> None:
        """The parameters of a stage and their gradient."""
        readers = self._all("F", stage) + self._all("B", stage)
        self.add(-1, size, readers, "parameter")
        self.add(-1, size, self._all(self.weight_pass, stage), "gradient")

    def add_stored(self, stage: int, microbatch: int, early: int, late: int) -> None:
        """What F leaves for the backward pass, and W's waiting for B."""
        forward, back = self.index["F", stage, microbatch], self.index["B", stage, microbatch]
        last = self.index[self.weight_pass, stage, microbatch]
        self.add(forward, early, [back])
        self.add(forward, late, sorted({back, last}))
        if last != back:
            self.add(back, 0, [last])

    def add_boundaries(self, stage: int, microbatch: int, size: int) -> None:
        """The activation to the next stage and the gradient back from it."""
        if stage + 1 == self.stages:
            return
        kinds: tuple[Pass, Pass] = "F", "B"
        for kind in kinds:
            here, there = (
                self.index[kind, stage, microbatch],
                self.index[kind, stage + 1, microbatch],
            )
            self.add(min(here, there), size, [max(here, there)])

    def graph(self, times: dict[str, float], name: str) -> ComputationGraph:
        kinds = [kind for kind, *_ in self.ops]
        producer, size, persistent, consumers, role = zip(*self.rows, strict=True)
        phase = ["forward" if kind == "F" else "backward" for kind in kinds]
        places = {"stage": [s for _, s, _ in self.ops], "microbatch": [i for *_, i in self.ops]}
        return ComputationGraph.create(
            producer=np.array(producer),
            size=list(size),
            persistent=list(persistent),
            consumers=consumers,
            num_ops=len(self.ops),
            duration=[times[kind] for kind in kinds],
            op_names=tuple(op_name(*op) for op in self.ops),
            op_kinds=tuple(KINDS[kind] for kind in kinds),
            name=name,
            family="pipeline",
            extra={"ops": {"phase": phase, **places}, "tensors": {"role": list(role)}},
        )

    def _all(self, kind: Pass, stage: int) -> list[int]:
        """One pass of a stage on every microbatch."""
        return [self.index[kind, stage, i] for i in range(self.microbatches)]
