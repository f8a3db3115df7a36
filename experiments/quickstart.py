"""The main job on a real model: a Transformer train step on two devices, with less peak memory.

  python experiments/quickstart.py

Imports the train step (gradients of four microbatches that share their parameters, Adam update)
from Flax through its jaxpr, schedules it, prints what was saved and, with matplotlib, draws it.
"""

from pathlib import Path

from absl import flags

import regal_jax as rj
from regal_jax.datasets import example_models
from regal_jax.errors import MissingDependencyError
from regal_jax.methods.simple import best_simple_schedule
from regal_jax.reporting import plots, progress, tables, traces
from regal_jax.studies import launch

_MODEL = flags.DEFINE_enum("model", "transformer", sorted(example_models.MODELS), "Which model.")
_MICROBATCHES = flags.DEFINE_integer("microbatches", 4, "Microbatches of a training step.")
_NUM_DEVICES = flags.DEFINE_integer("num_devices", 2, "Devices.")
_EVALUATIONS = flags.DEFINE_integer("evaluations", None, "Budget of each search, if not its own.")
_SEED = flags.DEFINE_integer("seed", 0, "Seed of each search.")
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "results/quickstart", "Where files go.")


def main(_) -> None:
    output = Path(_OUTPUT_DIR.value)
    output.mkdir(parents=True, exist_ok=True)
    graph = example_models.train_graph(_MODEL.value, microbatches=_MICROBATCHES.value)
    print(f"{graph.name}: {graph.num_ops} ops, {graph.num_tensors} tensors")
    platform = rj.Platform(_NUM_DEVICES.value)
    simple = best_simple_schedule(graph, "peak_memory", platform)
    schedules = {f"best simple order ({simple.method})": simple}
    for method in ("brkga", "auto"):
        with progress.search_progress(method, _EVALUATIONS.value) as on_progress:
            schedules[method] = rj.optimize(
                graph,
                num_devices=platform.num_devices,
                method=method,
                evaluations=_EVALUATIONS.value,
                seed=_SEED.value,
                on_progress=on_progress,
            )
    best = schedules["auto"]
    print(tables.comparison(schedules))
    rj.save_graph(graph, output / "graph.json")
    rj.save_schedule(best, output / "schedule.json")
    traces.save_trace(graph, best, output / "trace.json", platform)
    try:
        plots.plot_memory(graph, {simple.method: simple, "auto": best}, output / "memory.png")
    except MissingDependencyError as error:
        print(f"no picture: {error}")
    print(f"wrote {', '.join(sorted(str(path) for path in output.iterdir()))}")


if __name__ == "__main__":
    launch.run(main)
