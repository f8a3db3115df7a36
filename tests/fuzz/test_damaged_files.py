"""Ten thousand damaged files of every format: an answer or one line, and nothing half-written."""

import gzip
import os
import random
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import regal_jax as rj
from regal_jax.cli import main
from tests.policies.cases import random_graph

CASES = 1_000
PBTXT = Path(__file__).parents[1] / "graphs/importers/tensorflow/data/regal_example.pbtxt"
STRIP = b"[]{}(),:=\"'-.eE0123456789 \n\x00\xff%*#~\\/"


def _compiled():
    def loop(x, w):
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), c.sum()), x, None, length=5)

    return jax.jit(loop).lower(jnp.ones((8, 8)), jnp.ones((8, 8))).compile()


def _onnx():
    onnx = pytest.importorskip("onnx")
    from tests.graphs.importers.onnx.models import info, model

    nodes = [
        onnx.helper.make_node("MatMul", ["x", "x"], ["h"]),
        onnx.helper.make_node("Relu", ["h"], ["y"]),
    ]
    return model(nodes, [info("x", 4, 4)], [info("y", 4, 4)]).SerializeToString()


def _graph(tmp_path, name):
    rj.save_graph(random_graph(0), tmp_path / name)
    return (tmp_path / name).read_bytes()


def _job_shop(_):
    return b"3 2\n0 3 1 2\n1 4 0 1\n0 2 1 5\n"


def _module(_):
    return _compiled().runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()


FORMATS = {
    "graph.json": (lambda tmp_path: _graph(tmp_path, "g.json"), ()),
    "graph.jsonl": (lambda tmp_path: _graph(tmp_path, "g.jsonl"), ()),
    "graph.jsonl.gz": (lambda tmp_path: _graph(tmp_path, "g.jsonl.gz"), ()),
    "model.onnx": (lambda _: _onnx(), ("--dimensions=*=2",)),
    "cost.pbtxt": (lambda _: PBTXT.read_bytes(), ()),
    "module.hlo": (lambda _: _compiled().as_text().encode(), ()),
    "module.hlo.pb": (_module, ()),
    "shop.txt": (_job_shop, ("--job_shop",)),
}


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Some bytes of a file changed, left out, doubled, put in, or cut off."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at, length = rng.randrange(len(changed) + 1), rng.randrange(1, 30)
        kind = rng.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif kind == 1 and at < len(changed):
            changed[at] = rng.choice(STRIP)
        elif kind == 2:
            del changed[at : at + length]
        elif kind == 3:
            changed[at:at] = changed[at : at + length]
        elif kind == 4:
            changed[at:at] = bytes(rng.choice(STRIP) for _ in range(length))
        elif rng.random() < 0.1:
            del changed[at:]
    return bytes(changed)


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_read_or_refused_in_a_line(name, tmp_path, capfd):
    make, flags = FORMATS[name]
    whole, rng = make(tmp_path), random.Random(name)
    folder = tmp_path / "files"
    folder.mkdir()
    source, output = folder / name, folder / "out.json"
    refused = 0
    for _ in range(CASES):
        data = damaged(rng, whole)
        if name.endswith(".gz") and rng.random() < 0.5:
            data = gzip.compress(damaged(rng, gzip.decompress(whole)))
        source.write_bytes(data)
        output.unlink(missing_ok=True)
        code = main(["import", str(source), f"--output={output}", *flags])
        captured = capfd.readouterr()
        errors = [line for line in captured.err.splitlines() if "regal-jax: warning" not in line]
        assert code == 0 or (code == 2 and len(errors) == 1), captured.err
        assert errors == [] or errors[0].startswith("regal-jax: error: ")
        assert sorted(os.listdir(folder)) == sorted([name] + ["out.json"] * (code == 0))
        if code == 0:
            rj.load_graph(output)
        refused += code != 0
    assert refused > CASES / 50


@pytest.mark.parametrize("kind", ["explain", "check"])
def test_damaged_programs_and_schedules(kind, tmp_path, capfd):
    rj.save_graph(random_graph(0), tmp_path / "graph.json")
    whole = _compiled().as_text().encode()
    if kind == "check":
        best = rj.optimize(random_graph(0), method="lpmf", num_devices=1)
        rj.save_schedule(best, tmp_path / "file.txt")
        whole = (tmp_path / "file.txt").read_bytes()
    rng = random.Random(kind)
    for _ in range(CASES):
        (tmp_path / "file.txt").write_bytes(damaged(rng, whole))
        graph = [str(tmp_path / "graph.json")] if kind == "check" else []
        code = main([kind, *graph, str(tmp_path / "file.txt")])
        error = capfd.readouterr().err
        assert (code == 0 and not error) or (code == 2 and error.count("\n") == 1), error
