"""The main job on a real model: a Transformer train step on two devices, with less peak memory.

  python experiments/quickstart.py

Imports the train step (gradients of four microbatches that share their parameters, Adam update)
from Flax through its jaxpr, schedules it, prints what was saved and, with matplotlib, draws it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from absl.flags import FLAGS

import regal_jax as rj
from regal_jax.datasets import example_models
from regal_jax.methods.simple import best_simple_schedule
from regal_jax.reporting import figures, plots, progress, tables, traces
from regal_jax.studies import flags, launch


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Which model, on what, and how it is searched."""

    model: Literal["mlp", "transformer"] = flags.option("transformer", "Which model.")
    microbatches: int = flags.option(4, "Microbatches of a training step.")
    num_devices: int = flags.option(2, "Devices.")
    evaluations: int | None = flags.option(None, "Budget of each search, if not its own.")
    seed: int = flags.option(0, "Seed of each search.")
    output_dir: str = flags.option("results/quickstart", "Where files go.")


def main(settings, folder) -> None:
    devices, budget, output = settings.num_devices, settings.evaluations, Path(settings.output_dir)
    output.mkdir(parents=True, exist_ok=True)
    graph = example_models.train_graph(settings.model, microbatches=settings.microbatches)
    print(f"{graph.name}: {graph.num_ops} ops, {graph.num_tensors} tensors")
    simple = best_simple_schedule(graph, "peak_memory", rj.Platform(devices))
    schedules = {f"best simple order ({simple.method})": simple}
    options = {"num_devices": devices, "evaluations": budget, "seed": settings.seed}
    for method in ("brkga", "auto"):
        with progress.search_progress(method, budget) as update:
            schedules[method] = rj.optimize(graph, method=method, on_progress=update, **options)
    print(tables.comparison(schedules))
    rj.save_graph(graph, output / "graph.json")
    rj.save_schedule(schedules["auto"], output / "schedule.json")
    traces.save_trace(graph, schedules["auto"], output / "trace.json", rj.Platform(devices))
    pair = {simple.method: simple, "auto": schedules["auto"]}
    figures.drawn(plots.plot_memory, graph, pair, output / "memory.png")
    print(f"wrote {', '.join(sorted(str(path) for path in output.iterdir()))}")


if __name__ == "__main__":
    launch.run(main, Settings(), FLAGS)
