"""Do searches rediscover 1F1B and zero-bubble pipelines, told the graph and a memory cap alone?

  python experiments/regal_pipelines.py --flagfile=experiments/flags/smoke/regal_pipelines.flags

For p stages and m microbatches: the published schedules' makespan and peak memory, and what each
method reaches on p devices with as much memory as one of them takes.
"""

from collections import defaultdict

from absl import flags

from regal_jax.errors import OptionError
from regal_jax.reporting import results, tables
from regal_jax.studies import launch
from regal_jax.studies.regal import experiment, pipelines

_STAGES = flags.DEFINE_list("stages", ["2", "4"], "Numbers of stages, and of devices.")
_MICROBATCHES = flags.DEFINE_list("microbatches", ["4", "8"], "Numbers of microbatches.")
_CAPS = flags.DEFINE_list("caps", ["1f1b", "zb-h2"], "Schedules whose memory is the cap.")
_METHODS = flags.DEFINE_list(
    "methods", ["random_search", "brkga", "etf", "local_search", "auto"], "What to run."
)
_EVALUATIONS = flags.DEFINE_integer("evaluations", 5000, "Budget of each search.")
_SEEDS = flags.DEFINE_integer("seeds", 1, "Seeds of each search.")
experiment.define_output("results/regal_pipelines")


def main(_) -> None:
    path = experiment.output_dir() / "results.csv"
    verdicts: dict[str, list[str]] = defaultdict(list)
    known_rows = results.read_results(path, missing_ok=True)
    for stages in map(int, _STAGES.value):
        for microbatches in map(int, _MICROBATCHES.value):
            known = pipelines.published(stages, microbatches)
            lines = [
                {"schedule": name, "makespan": f"{each.makespan:g}", "peak": each.peak_memory}
                for name, each in known.items()
            ]
            for cap in _CAPS.value:
                lines += _attempts(stages, microbatches, cap, known, path, known_rows, verdicts)
            print(f"\n{stages} stages, {microbatches} microbatches")
            print(tables.text_table(lines, ["schedule", "makespan", "peak", "cap", "verdict"]))
    print()
    for name in pipelines.PUBLISHED:
        print(pipelines.answer(_METHODS.value, verdicts, name))


def _attempts(stages, microbatches, cap, known, path, known_rows, verdicts) -> list[dict]:
    """A line a method and seed; those in ``known_rows`` are not run again."""
    capacity, lines = known[cap].peak_memory, []
    graph = f"{stages}x{microbatches} within {cap}"
    found = {
        (row["method"], int(row["seed"]), row["metric"]): float(row["value"])
        for row in known_rows
        if row["graph"] == graph
    }
    for method in _METHODS.value:
        for seed in range(_SEEDS.value):
            if (method, seed, "peak") not in found:
                try:
                    schedule = pipelines.attempt(
                        stages,
                        microbatches,
                        capacity,
                        method,
                        evaluations=_EVALUATIONS.value,
                        seed=seed,
                    )
                except OptionError as error:
                    print(f"{method} is left out: {error}")
                    break
                common = {"graph": graph, "method": method, "seed": seed}
                values = {"makespan": schedule.makespan, "peak": max(schedule.peak_memory)}
                new = [common | {"metric": key, "value": value} for key, value in values.items()]
                results.append_results(path, new)
                found |= {(method, seed, key): float(value) for key, value in values.items()}
            makespan, peak = found[method, seed, "makespan"], int(found[method, seed, "peak"])
            words = pipelines.verdict(makespan, peak, known, capacity)
            verdicts[method].append(words)
            line = {"schedule": method, "makespan": f"{makespan:g}", "peak": peak}
            lines.append(line | {"cap": cap, "verdict": words})
    return lines


if __name__ == "__main__":
    launch.run(main)
