"""Tables of programs that ran on a device, from rows of ``device_runs``."""

from collections.abc import Mapping, Sequence

from regal_jax.compiler.xla.reschedule import DEFAULT as PLAIN
from regal_jax.options import byte_count
from regal_jax.reporting.results import Row
from regal_jax.reporting.tables import human_bytes
from regal_jax.studies.compiler.accelerator_memory import IN_TIME, OURS, mean
from regal_jax.studies.compiler.checkpointed import METHODS

EXPECTED_BYTES, EXPECTED_SECONDS = "expected_bytes", "expected_seconds"
"""Where the device wasn't there."""


def table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """A line a program without a budget: bytes in use beyond the arguments, and milliseconds, by
    XLA's choice and ours; ours over XLA's, and what is as fast over XLA's where that ran, too."""
    by_program = _by_program(rows, in_budget=False)
    faster = any(method == IN_TIME for of in by_program.values() for method, _ in of)
    return [_line(name, of) | (_in_time(of) if faster else {}) for name, of in by_program.items()]


def _line(name: str, of: Mapping[tuple[str, str], float]) -> dict[str, str]:
    line = {"program": name} | _ran(of, "XLA", PLAIN) | _ran(of, "ours", OURS)
    line |= {label: _ratio(found) for label, found in ratios(of, OURS).items()}
    line["difference"] = f"{of[OURS, 'difference']:.1g}" if (OURS, "difference") in of else ""
    return line


def _ran(of: Mapping[tuple[str, str], float], label: str, method: str) -> dict[str, str]:
    """What a method's program had in use, and its time."""
    peak, seconds = of.get((method, "peak_bytes")), of.get((method, "run_seconds"))
    return {
        label: human_bytes(peak) if peak else "",
        f"{label}, ms": f"{1e3 * seconds:.3g}" if seconds else "doesn't fit",
    }


def _in_time(of: Mapping[tuple[str, str], float]) -> dict[str, str]:
    found = ratios(of, IN_TIME)
    return {f"in time: {label}": _ratio(found[label]) for label in ("in use", "time")}


def budgets(rows: Sequence[Row]) -> list[dict[str, str]]:
    """A line a program within a budget: bytes in use and milliseconds, of XLA's choice, with each
    use of ``jax.checkpoint`` that ran, and ours."""
    by_program = _by_program(rows, in_budget=True)
    known = {method for of in by_program.values() for method, _ in of}
    methods = {"XLA": PLAIN} | {method: method for method in METHODS if method in known}
    lines = []
    for name, of in by_program.items():
        program, _, budget = name.partition("@")
        line = {"program": program, "budget": human_bytes(byte_count(budget))}
        for label, method in (methods | {"ours": OURS}).items():
            line |= _ran(of, label, method)
        lines.append(line)
    return lines


def _ratio(found: float | None) -> str:
    return "" if found is None else f"{found:.3f}"


def ratios(of: Mapping[tuple[str, str], float], method: str) -> dict[str, float | None]:
    """A method's over XLA's own choice, of one program: bytes as compiled and in use, and time, and
    what was expected of them without the device. None for what there isn't."""

    def ratio(metric: str) -> float | None:
        both = of.get((method, metric)), of.get((PLAIN, metric))
        return both[0] / both[1] if both[0] and both[1] else None

    return {
        "bytes": ratio("total_bytes"),
        "in use": ratio("peak_bytes"),
        "time": of.get((method, "run_ratio")),
        "bytes expected": ratio(EXPECTED_BYTES),
        "time expected": ratio(EXPECTED_SECONDS),
    }


def summary(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Geometric means over programs, 95 % intervals (from ten on) and ranges: without a budget, and
    with overlap; within one, and with ``jax.checkpoint`` there."""
    methods = [("ours", OURS, False), ("in time", IN_TIME, False), ("in a budget", OURS, True)]
    lines = []
    for label, method, in_budget in (*methods, *((name, name, True) for name in METHODS)):
        own = {
            name: ratios(of, method)
            for name, of in _by_program(rows, in_budget).items()
            if (method, "total_bytes") in of
        }
        if not own:
            continue
        line = {"programs": label, "number": str(len(own))}
        for metric in ratios({}, method):
            known = {name: one for name, of in own.items() if (one := of[metric]) is not None}
            line[metric] = mean(known) if known else ""
        lines.append(line)
    return lines


def sentence(rows: Sequence[Row]) -> str:
    """What ``summary`` says without a budget, for people."""
    line = next(line for line in summary(rows) if line["programs"] == "ours")
    size, time = (line[metric].split(" (")[0] for metric in ("in use", "time"))
    where, count = devices(rows)[0], line["number"]
    what = f"{count} train steps ran in {size} of XLA's bytes, {time} of its time"
    return f"On one {where}, {what}.\n"


def devices(rows: Sequence[Row]) -> list[str]:
    """Those that programs ran on."""
    return list(dict.fromkeys(str(row["device"]) for row in rows if row["metric"] == "ran"))


def _by_program(rows: Sequence[Row], in_budget: bool) -> dict[str, dict[tuple[str, str], float]]:
    """{program: {(method, metric): value}} of those within a budget, or of those without."""
    found: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows:
        if ("@" in str(row["graph"])) == in_budget:
            of = found.setdefault(str(row["graph"]), {})
            of[str(row["method"]), str(row["metric"])] = float(row["value"])
    return found
