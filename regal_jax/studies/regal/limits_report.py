"""REGAL's figures 5 and 6, and section 4.4, for every setting: long searches and what they tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regal_jax.environments.schedule import Objective
from regal_jax.reporting import tables
from regal_jax.reporting.statistics import MeanInterval
from regal_jax.studies.flags import option
from regal_jax.studies.regal import evaluation_limits, experiment


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings, experiment.XlaGraphs):
    """What is searched for, how long, on XLA's graphs, too."""

    long_evaluations: int = option(50_000, "Budget of each search.")
    objective: Objective = option("peak_memory", "What to minimise.")

    @property
    def reference(self) -> int:
        """Evaluations of the BRKGA that all is compared with."""
        return min(evaluation_limits.REFERENCE, self.long_evaluations)

    @property
    def limits(self) -> list[int]:
        """Those of figure 5 that the searches reach."""
        return [limit for limit in evaluation_limits.LIMITS if limit <= self.long_evaluations]


def compare(settings: Settings, folder: Path) -> list[dict]:
    """Rows of a long search a method, graph and seed."""
    policy = experiment.policy(settings, settings.objective, folder)
    return experiment.compare(
        experiment.graphs_with_xla(settings),
        evaluation_limits.long_runs(settings.methods, settings.long_evaluations),
        folder,
        settings,
        num_devices=settings.regal.num_devices,
        objective=settings.objective,
        policies={"regal_paper": policy},
    )


def page(rows: Sequence[dict]) -> str:
    """Figures 5 and 6 as tables: a line a method, a column a limit that all searches reach, in
    Markdown."""
    seeds = len({row["seed"] for row in rows})
    parts = [_PAGE.format(evaluation_limits.REFERENCE, tables.number_of(seeds, "seed"))]
    for setting in dict.fromkeys(row["setting"] for row in rows):
        reached = {row["metric"] for row in rows if row["setting"] == setting}
        limits = [limit for limit in evaluation_limits.LIMITS if f"cost@{limit}" in reached]
        lines: dict[str, dict[str, str]] = {}
        for point in evaluation_limits.curve(rows, setting, limits, evaluation_limits.REFERENCE):
            line = lines.setdefault(point["method"], {"method": f"`{point['method']}`"})
            line[f"{point['evaluations']:,}"] = _mean(point).text(".1f")
        graphs = len({row["graph"] for row in rows if row["setting"] == setting})
        title = f"{setting[0].upper()}{setting[1:]}, {graphs} graphs:"
        parts += [title, tables.markdown_table(list(lines.values()))]
    return "\n\n".join(parts) + "\n"


_PAGE = (
    "Improvement over BRKGA with {:,} evaluations by evaluations, %, mean and 95 % interval over"
    " graphs; {}."
)


def report(rows: Sequence[dict], setting: str, settings: Settings) -> None:
    """Prints a setting's curve and its answers."""
    reference, limits = settings.reference, settings.limits
    points = evaluation_limits.curve(rows, setting, limits, reference)
    print(f"{setting}: improvement over BRKGA with {reference} evaluations, %")
    print(tables.text_table([_formatted(point) for point in points]))
    _print_claim(points, settings)
    if "regal_paper" in settings.methods:
        fewer, share = evaluation_limits.fewer_evaluations(rows, setting, "regal_paper", reference)
        print(
            f"REGAL has BRKGA's value after {fewer:.1f} % fewer evaluations, in {share:.1f} % of"
            f" searches (paper: {evaluation_limits.PAPER_FEWER_GENERATIONS} % fewer generations)\n"
        )


def _formatted(point: dict) -> dict:
    row = {key: point[key] for key in ("method", "evaluations")}
    return row | {"mean": _mean(point).text()}


def _mean(point: dict) -> MeanInterval:
    return MeanInterval(*(point[field] for field in MeanInterval._fields))


def _print_claim(points: Sequence[dict], settings: Settings) -> None:
    """Whether a REGAL of the reference's budget has what the longest BRKGA has, where both are."""
    reference, longest = settings.reference, settings.long_evaluations
    mean = {(point["method"], point["evaluations"]): point["mean"] for point in points}
    if ("regal_paper", reference) in mean and longest > reference:
        short, long = mean["regal_paper", reference], mean["brkga", settings.limits[-1]]
        print(
            f"REGAL with {reference}: {short:.2f} %, BRKGA with {settings.limits[-1]}: {long:.2f} %"
            f" (the paper's claim {'holds' if short >= long else 'does not hold'} here)"
        )
