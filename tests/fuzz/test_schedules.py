"""A hundred thousand costs against the oracle, and ten thousand altered schedule files."""

import copy
import json

import numpy as np
import pytest

import regal_jax as rj
from regal_jax.cli import main
from regal_jax.environments import claims
from regal_jax.environments.platform import Platform
from regal_jax.environments.schedule import load_schedule
from regal_jax.errors import RegalError
from tests.oracles import schedule_cost as oracle
from tests.policies.cases import random_graph

PARTS = 20
COSTS, ALTERED = 100_000 // PARTS, 10_000 // PARTS
CHROMOSOMES = 40
POOLS = ([0.0, -0.0, 1.0], [-1e-40, 0.0, 1e-45, 1e-40], [-1.0, 0.25, 0.5, 0.75], None)
PLATFORM = {"latency": 1.5, "per_byte": 0.25}


@pytest.mark.parametrize("part", range(PARTS))
def test_costs_are_the_oracle_s(part):
    for number in range(COSTS // CHROMOSOMES):
        rng = np.random.default_rng((part, number))
        graph = random_graph(int(rng.integers(2**31)), int(rng.integers(1, 9)))
        devices, pool = int(rng.integers(1, 4)), POOLS[rng.integers(len(POOLS))]
        platform = Platform(num_devices=devices, **PLATFORM)
        problems = [
            rj.PlacementProblem.on(graph, platform, objective)
            for objective in ("peak_memory", "makespan")
        ]
        shape = (CHROMOSOMES, problems[0].num_genes)
        genes = rng.random(shape) if pool is None else rng.choice(pool, shape)
        genes, plain = genes.astype(np.float32), oracle.plain(graph)
        found = [np.asarray(problem.fitness(genes)) for problem in problems]
        for row in range(CHROMOSOMES):
            placement, steps = oracle.decode(plain, genes[row], devices)
            peak = max(oracle.peak_memory(plain, placement, steps, devices))
            time = oracle.makespan(plain, placement, steps, **PLATFORM)
            assert found[0][row] == np.float32(peak)
            assert found[1][row] == np.float32(time)


def altered(rng: np.random.Generator, document: dict, num_ops: int) -> dict:
    """A schedule file with one thing about it changed."""
    changed, columns = copy.deepcopy(document), ("steps", "placement", "start", "history")
    key = rng.choice([key for key, value in document.items() if isinstance(value, list) or value])
    value = changed[key]
    if key in columns and len(value) > 1 and rng.random() < 0.5:
        i, j = rng.choice(len(value), 2, replace=False)
        value[i], value[j] = value[j], value[i]
    elif isinstance(value, list) and value:
        index = int(rng.integers(len(value)))
        choice = rng.integers(4)
        if choice == 0:
            del value[index]
        elif choice == 1:
            value.insert(index, copy.deepcopy(value[index]))
        else:
            value[index] = _other(rng, value[index], num_ops)
    else:
        changed[key] = _other(rng, value, num_ops)
    return changed


def _other(rng, value, num_ops):
    if isinstance(value, list):
        return [_other(rng, part, num_ops) for part in value]
    if isinstance(value, bool | str | dict) or value is None:
        return (1, "x", None, [], {}, -1)[rng.integers(6)]
    scale = float(rng.choice([0.0, -1.0, 0.5, 1 + 1e-6, 2.0, 1e30]))
    number = value * scale if value else scale
    whole = isinstance(value, int) and rng.random() < 0.8
    return int(number) + int(rng.integers(-2, num_ops)) if whole else number


def is_true(graph, path, options) -> bool:
    """Whether a file that was accepted says nothing that isn't so, by the oracle's rules."""
    claimed = load_schedule(path)
    plain = oracle.plain(graph)
    num_ops, devices = graph.num_ops, claimed.num_devices
    placement = claimed.placement.tolist()
    steps = [
        ("op", step)
        if step < num_ops
        else ("transfer", (step - num_ops) // devices, (step - num_ops) % devices)
        for step in claimed.steps.tolist()
    ]
    done = set()
    for step in steps:
        if not oracle.is_ready(plain, placement, done, step):
            return False
        done.add(step)
    peak = oracle.peak_memory(plain, placement, steps, devices)
    time = oracle.makespan(plain, placement, steps, **options)
    cost = rj.evaluate(graph, claimed, **options)
    try:
        claims.check_claims(claimed, np.array(peak), time, cost.start)
    except RegalError:
        return False
    return done == oracle.all_steps(plain, placement)


def is_true_of_machines(graph, path, options) -> bool:
    """The same for machine types, from start times alone."""
    claimed = load_schedule(path)
    start = claimed.start
    end = start + graph.duration
    if any(start[after] < end[before] for before, _, after in graph.edges.tolist()):
        return False
    for time in start:
        running = (start <= time) & ((time < end) | ((start == time) & (end == time)))
        for machine, capacity in enumerate(graph.capacity):
            if graph.demand[running & (graph.machine_type == machine)].sum() > capacity:
                return False
    return claimed.makespan == pytest.approx(end.max(), rel=1e-6)


KINDS = {
    "peak_memory": (is_true, PLATFORM),
    "makespan": (is_true, PLATFORM),
    "machines": (is_true_of_machines, {}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(PARTS // 2))
def test_no_altered_schedule_is_accepted(part, kind, tmp_path, capsys):
    is_so, options = KINDS[kind]
    graph = random_graph(part, 10)
    if kind == "machines":
        rng = np.random.default_rng(part)
        graph = graph.replace(
            capacity=np.array([2, 3]),
            machine_type=rng.integers(0, 2, 10).astype(np.int32),
            demand=rng.integers(1, 3, 10),
        )
    rj.save_graph(graph, tmp_path / "graph.json")
    objective = "peak_memory" if kind == "peak_memory" else "makespan"
    best = rj.optimize(graph, objective=objective, method="auto", evaluations=300, **options)
    path = tmp_path / "schedule.json"
    rj.save_schedule(best, path)
    document = json.loads(path.read_text())
    flags = [f"--{name}={value}" for name, value in options.items()]
    accepted = []
    for number in range(ALTERED):
        rng = np.random.default_rng((part, number))
        changed = altered(rng, document, graph.num_ops)
        path.write_text(json.dumps(changed))
        code = main(["check", str(tmp_path / "graph.json"), str(path), *flags])
        assert code in (0, 2)
        if code == 0 and changed != document and not is_so(graph, path, options):
            accepted.append(changed)
    assert "Traceback" not in capsys.readouterr().err
    assert not accepted
