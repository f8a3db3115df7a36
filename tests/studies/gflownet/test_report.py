"""What is reported of trainings."""

from regal_jax.reporting import results
from regal_jax.studies.gflownet import report


def by_metric(rows, method):
    return {row["metric"]: row["value"] for row in rows if row["method"] == method}


def test_variants_are_reported_by_quarters_of_their_steps(tmp_path, capsys):
    files = {"one": [tmp_path / "one" / "last.policy"], "two": [tmp_path / "two" / "last.policy"]}
    for slope, (file,) in enumerate(files.values(), 1):
        file.parent.mkdir()
        file.write_bytes(b"%d" % slope)
        lines = [f"{n},{slope * n},{slope if n == 8 else ''}," for n in range(1, 9)]
        text = "\n".join(["step,speedup,validation_top_1,validation_top", *lines, ""])
        (file.parent / "metrics.csv").write_text(text)
    rows = report.report_variants(files, "losses", tmp_path)
    quarters = {f"quarter_{n}": value for n, value in enumerate((3.0, 7.0, 11.0, 15.0), 1)}
    assert by_metric(rows, "two") == quarters | {"validation_top_1": 2.0}
    assert results.read_results(tmp_path / "results.csv") == rows
    assert "losses: speedups of schedules during training" in capsys.readouterr().out
