"""The table of ever larger graphs."""

from regal_jax.studies.comparison import growth


def test_a_line_has_both_methods():
    common = {"graph": "step@40", "seed": 0, "ops": "100920", "devices": "2"}
    values = {
        "depth_first": {"bytes": 400.0, "scheduled": 3.0},
        "auto": {"bytes": 300.0, "bound": 250.0, "scheduled": 60.0, "read": 2.0, "checked": 5.0}
        | {"gib": 1.9},
    }
    rows = [
        common | {"method": method, "metric": metric, "value": value}
        for method, found in values.items()
        for metric, value in found.items()
    ]
    cells = [cell.strip() for cell in growth.page(rows).splitlines()[2].split("|")[1:-1]]
    made = ["2.0", "60.0", "3.0", "5.0", "1.90"]
    assert cells == ["`step@40`", "100,920", "2", "0.750", "1.200", *made]
