"""Task graphs with known optima: what is run on them, and gaps by hand."""

import pytest

from regal_jax.errors import OptionError, RegalError
from regal_jax.studies.stg import report, runs
from regal_jax.studies.stg.instances import Known
from regal_jax.studies.stg.runs import Settings


def test_heuristics_are_run_once_and_methods_with_each_seed():
    settings = Settings(
        heuristics=("etf",), methods=("brkga",), evaluations=7, seeds=3, processors=(2, 4)
    )
    rule, method = runs.solvers(settings)
    assert (rule.label, rule.processors, rule.seeds) == ("etf", (2, 4), 1)
    assert (method.label, method.processors, method.seeds) == ("brkga 7", (2,), 3)
    with pytest.raises(OptionError, match="heuristics: none: not of "):
        runs.solvers(Settings(heuristics=("none",)))


def test_a_makespan_below_what_is_known_is_an_error():
    runs.check("etf", 6.0, Known(6.0, True))
    for known, what in ((Known(7.0, True), "optimum"), (Known(7.0, False), "published lower")):
        with pytest.raises(RegalError, match=f"etf: makespan 6 is below the {what}"):
            runs.check("etf", 6.0, known)


def test_gaps_are_over_the_bound_by_seed():
    common = {"set": "s", "graph": "g", "processors": "2", "method": "etf"}
    rows = [
        common | {"seed": seed, "metric": metric, "value": value}
        for seed, makespan in enumerate((10.0, 15.0))
        for metric, value in (("makespan", makespan), ("bound", 10.0))
    ]
    assert report.gaps_by_column(rows) == {("etf", 2): {"g": [0.0, 50.0]}}
