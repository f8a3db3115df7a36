"""regal-schedule/1 files: round trips, and one-line rejections."""

import copy
import json
import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.environments import schedule as schedules
from regal_jax.environments.placement.problem import PlacementProblem
from regal_jax.environments.schedule import Schedule
from regal_jax.errors import OptionError, RegalError, ScheduleError
from tests.strategies import computation_graphs

DOCUMENT = {
    "format": "regal-schedule/1",
    "graph": "net",
    "objective": "makespan",
    "num_devices": 2,
    "placement": [0, 1, 0],
    "steps": [{"op": 0}, {"transfer": 7, "to": 1}, {"op": 2}, {"op": 1}],
    "start": [0.0, 2.5, 1.0],
    "peak_memory": [10, 2**53],
    "makespan": 4.25,
    "method": "regal",
    "evaluations": 5000,
    "seed": 3,
    "seconds": 0.41,
    "compile_seconds": 3.5,
    "history": [[100, 5.0], [190, 4.25]],
    "lower_bound": 4.0,
}
REQUIRED = ("graph", "objective", "num_devices", "placement", "steps")


def changed(**fields):
    document = copy.deepcopy(DOCUMENT) | fields
    return {key: value for key, value in document.items() if value is not ...}


def test_fields_read():
    schedule = schedules.schedule_from_json(DOCUMENT)
    assert schedule.placement.tolist() == [0, 1, 0]
    assert schedule.steps.tolist() == [0, 3 + 7 * 2 + 1, 2, 1]
    assert schedule.ops_in_order().tolist() == [0, 2, 1]
    assert schedule.start.tolist() == [0.0, 2.5, 1.0]
    assert schedule.peak_memory == (10, 2**53)
    assert schedule.history == ((100, 5.0), (190, 4.25))
    assert (schedule.makespan, schedule.cost, schedule.gap) == (4.25, 4.25, 0.0625)
    assert (schedule.method, schedule.evaluations, schedule.seed) == ("regal", 5000, 3)
    assert schedules.schedule_to_json(schedule) == DOCUMENT


def test_optional_fields_have_defaults():
    schedule = schedules.schedule_from_json({k: DOCUMENT[k] for k in ("format", *REQUIRED)})
    assert (schedule.start, schedule.peak_memory, schedule.history) == (None, (), ())
    assert (schedule.method, schedule.evaluations, schedule.lower_bound) == ("", 0, None)
    assert schedule.gap is None
    assert not schedule.is_optimal


@pytest.mark.parametrize(
    ("lower_bound", "peak", "gap"), [(50, (60, 75), 0.5), (0, (0, 0), 0.0), (0, (3, 0), 1.0)]
)
def test_gap_of_peak_memory(lower_bound, peak, gap):
    schedule = schedules.schedule_from_json(changed(objective="peak_memory"))
    proven = schedule.replace(lower_bound=lower_bound, peak_memory=peak)
    assert proven.gap == gap
    assert proven.is_optimal == (gap == 0)


def test_file_round_trip(tmp_path):
    schedule = schedules.schedule_from_json(DOCUMENT)
    path = tmp_path / "schedule.json"
    schedules.save_schedule(schedule, path)
    assert schedules.load_schedule(str(path)) == schedule
    assert json.loads(path.read_text()) == DOCUMENT
    assert os.listdir(tmp_path) == [path.name]


@settings(max_examples=100)
@given(graph=computation_graphs(), num_devices=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_decoded_schedules_round_trip(graph, num_devices, seed):
    problem = PlacementProblem(graph, num_devices, "makespan")
    genes = np.random.default_rng(seed).random(problem.num_genes, np.float32)
    schedule = problem.decode(genes, method="brkga", evaluations=7)
    text = json.dumps(schedules.schedule_to_json(schedule))
    again = schedules.schedule_from_json(json.loads(text))
    assert again == schedule
    assert again.placement.dtype == schedule.placement.dtype
    np.testing.assert_array_equal(again.steps, schedule.steps)


@pytest.mark.parametrize("key", REQUIRED)
def test_missing_fields_are_named(key):
    with pytest.raises(ScheduleError, match=f"^{key}: is required$"):
        schedules.schedule_from_json(changed(**{key: ...}))


@pytest.mark.parametrize("document", [None, [], "text", 3, {}, {"format": "regal-schedule/2"}])
def test_another_format_is_rejected(document):
    with pytest.raises(ScheduleError, match=r"^format: "):
        schedules.schedule_from_json(document)


@pytest.mark.parametrize(
    "fields",
    [
        {"graph": 5},
        {"objective": "speed"},
        {"objective": ["makespan"]},
        {"objective": None},
        {"num_devices": 2.0},
        {"num_devices": True},
        {"num_devices": "2"},
        {"num_devices": 0},
        {"placement": 3},
        {"placement": None},
        {"placement": [0, 1.0, 0]},
        {"placement": [0, "1", 0]},
        {"placement": [0, True, 0]},
        {"placement": [0, 2**40, 0]},
        {"placement": [[0], [1], [0]]},
        {"steps": 3},
        {"steps": [0, 1, 2]},
        {"steps": {"op": 0}},
        {"steps": [{"op": 3}]},
        {"steps": [{"op": -1}]},
        {"steps": [{"op": 0.0}]},
        {"steps": [{"op": 0, "to": 1}]},
        {"steps": [{"transfer": 0}]},
        {"steps": [{"transfer": -1, "to": 0}]},
        {"steps": [{"transfer": 0, "to": 2}]},
        {"steps": [{"transfer": 0, "to": -1}]},
        {"steps": [{"transfer": 2**64, "to": 0}]},
        {"steps": [{}]},
        {"start": 1.0},
        {"start": [0.0, "x", 1.0]},
        {"start": [0.0, 1.0]},
        {"start": [[0.0], [1.0], [2.0]]},
        {"start": [0.0, math.nan, 1.0]},
        {"peak_memory": [1.5, 2]},
        {"peak_memory": 3},
        {"makespan": "fast"},
        {"makespan": None},
        {"makespan": math.nan},
        {"method": 3},
        {"evaluations": "many"},
        {"seed": 1.5},
        {"seconds": "quick"},
        {"compile_seconds": "quick"},
        {"history": 3},
        {"history": [[1]]},
        {"history": [["a", "b"]]},
        {"lower_bound": "low"},
    ],
    ids=str,
)
def test_malformed_fields_are_rejected_in_one_line(tmp_path, fields):
    with pytest.raises(ScheduleError) as caught:
        schedules.schedule_from_json(changed(**fields))
    assert "\n" not in str(caught.value)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(changed(**fields)))
    with pytest.raises(RegalError, match=r"bad\.json"):
        schedules.load_schedule(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1, 2", b"nonsense"])
def test_unreadable_files_are_rejected_in_one_line(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(RegalError, match=r"bad\.json") as caught:
        schedules.load_schedule(path)
    assert "\n" not in str(caught.value)


def test_missing_file_and_unwritable_place(tmp_path):
    with pytest.raises(RegalError, match="no such file"):
        schedules.load_schedule(tmp_path / "none.json")
    with pytest.raises(RegalError, match="can't write there"):
        schedules.save_schedule(
            schedules.schedule_from_json(DOCUMENT), tmp_path / "no" / "schedule.json"
        )


def test_objective_names():
    schedules.check_objective("peak_memory")
    with pytest.raises(OptionError, match="peak_memory or makespan"):
        schedules.check_objective("memory")


def test_cost_of_peak_memory_is_the_fullest_device():
    schedule = Schedule(
        graph="",
        objective="peak_memory",
        num_devices=2,
        placement=np.zeros(1, np.int32),
        steps=np.zeros(1, np.int64),
        peak_memory=(3, 9),
        makespan=1.0,
    )
    assert schedule.cost == 9


@pytest.mark.parametrize(
    ("history", "evaluations", "gain"),
    [
        (((10, 100.0), (50, 80.0), (100, 70.0)), 200, 10.0),  # since the 50th, one doubling
        (((10, 100.0), (50, 80.0), (100, 70.0)), 400, 20.0),
        (((10, 100.0), (51, 80.0), (100, 70.0)), 200, 30.0),
        (((10, 70.0), (100, 70.0)), 10**6, 0.0),
        (((10, 100.0), (100, 70.0)), 100, 0.0),  # nothing is left
        (((60, 100.0), (100, 70.0)), 200, np.inf),
        ((), 200, 0.0),
    ],
)
def test_what_more_evaluations_may_be_expected_to_save(history, evaluations, gain):
    assert schedules.expected_gain(history, evaluations) == pytest.approx(gain)
