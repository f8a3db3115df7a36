from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from regal_jax.compiler.accelerators import accelerator as module
from regal_jax.compiler.accelerators.accelerator import accelerator, target_of
from regal_jax.compiler.accelerators.measure import measure
from regal_jax.compiler.accelerators.specifications import (
    SPECIFICATIONS,
    specification_of,
    target_config,
)
from regal_jax.errors import CompilerError, OptionError
from tests.compiler.accelerators.targets import compiler_for


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("h1000", "no 'h1000'; there are a100, h100"),
        ("h100:", "'' is no number of devices"),
        ("h100:0", "'0' is no number"),
        ("v5e:4x", "'4x' is no number"),
        ("v5e:-1", "'-1' is no number"),
        ("h100:9999x9999", "'9999x9999' is no number of devices, such as 8 or 4x4, up to 16384"),
        ("", "no ''"),
    ],
)
def test_names_that_are_none(name, message):
    with pytest.raises(OptionError, match=message):
        accelerator(name)


@pytest.mark.parametrize(("name", "extra"), [("h100", "cuda12"), ("v5e", "tpu")])
def test_a_missing_compiler_is_named(monkeypatch, name, extra):
    def missing(*_, **__):
        raise RuntimeError("unknown platform\nand a long story")

    monkeypatch.setattr(module.topologies, "get_topology_desc", missing)
    with pytest.raises(CompilerError, match=rf"unknown platform; it needs .*jax\[{extra}\]"):
        accelerator(name)


def test_devices_are_known_by_their_kind():
    assert specification_of("TPU v5 lite", "tpu").name == "v5e"
    assert specification_of("TPU v5", "tpu").name == "v5p"
    assert specification_of("NVIDIA H100 80GB HBM3", "gpu").name == "h100"
    assert specification_of("something new", "tpu").name == "v5e"


@pytest.mark.parametrize("name", [k for k, v in SPECIFICATIONS.items() if v.gpu])
def test_configurations_are_text_of_a_protocol_buffer(name):
    text = target_config(SPECIFICATIONS[name])
    assert text.count("{") == text.count("}")
    assert f"core_count: {SPECIFICATIONS[name].gpu.cores}" in text


def test_programs_for_cpus_have_no_target():
    assert target_of(jax.jit(jnp.sin).lower(1.0)) is None


@pytest.mark.parametrize(
    ("name", "number"),
    [("v5e", 1), ("v5e:2x2", 4), ("v5e:4x4", 16), ("v6e:2x2", 4), ("v5p:2x2x1", 4)],
)
def test_slices_of_tpus(name, number):
    found = compiler_for(name)
    assert len(found.devices) == number
    assert found.mesh().shape == {"devices": number}
    with pytest.raises(OptionError, match=f"isn't a mesh of {number} devices"):
        found.mesh((number + 1,))


@pytest.mark.parametrize("name", ["h100", "a100", "b200"])
def test_gpus(name):
    found = compiler_for(f"{name}:8")
    assert len(found.devices) == 8
    assert found.options


def test_programs_for_gpus_share_kernels_and_need_the_same():
    found = compiler_for("h100")
    shape = jax.ShapeDtypeStruct((256, 256), jnp.float32)
    alone = {"xla_gpu_kernel_cache_file": ""}
    kernels = Path(found.options["xla_gpu_kernel_cache_file"])
    for program in (lambda x: jnp.tanh(x @ x), lambda x: jnp.tanh(x @ x) + 1):
        size = kernels.stat().st_size if kernels.exists() else 0
        shared = measure(program, shape, accelerator=found)
        assert kernels.stat().st_size > size
        assert shared == measure(program, shape, accelerator=found, compiler_options=alone)


def test_without_a_folder_kernels_are_generated_again(monkeypatch, tmp_path):
    lost = SimpleNamespace(name=str(tmp_path / "lost"))
    monkeypatch.setattr(module, "_kernel_folder", lambda: lost)
    found = compiler_for("h100")
    assert "xla_gpu_kernel_cache_file" not in found.options
    measure(jnp.sin, jax.ShapeDtypeStruct((8,), jnp.float32), accelerator=found)


@pytest.mark.parametrize("fault", ["no folder", "no room"])
def test_where_kernels_cannot_be_kept_they_are_not(monkeypatch, tmp_path, fault):
    module._kernel_folder.cache_clear()
    found = module.Accelerator("h100", SPECIFICATIONS["h100"], ())
    kept = {"xla_gpu_autotune_level", "xla_gpu_kernel_cache_file"}
    with monkeypatch.context() as patch:
        if fault == "no folder":
            patch.setattr(module.tempfile, "tempdir", str(tmp_path / "lost"))
        else:
            patch.setattr(module.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
        assert found.options.keys() == kept - {"xla_gpu_kernel_cache_file"}
    assert found.options.keys() == kept


def test_a_program_on_an_accelerator_has_a_target():
    found = compiler_for("v5e")
    shape = jax.ShapeDtypeStruct((8,), jnp.float32, sharding=found.replicated())
    target = target_of(jax.jit(jnp.sin).trace(shape).lower())
    assert target is not None
    assert target.specification == found.specification
    assert not target.is_there
