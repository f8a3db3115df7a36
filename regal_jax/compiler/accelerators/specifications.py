"""Accelerators that programs are compiled for: what public data sheets say of them.

Arithmetic rates are of dense matrix products; bytes are of one device as its compiler counts
devices: a GPU, or a TPU chip.

| accelerator | source |
|---|---|
| a100 | NVIDIA A100 80GB SXM data sheet; NVIDIA A100 architecture white paper, table 4 |
| h100 | NVIDIA H100 SXM data sheet; NVIDIA H100 architecture white paper, tables 1 and 2 |
| h200 | NVIDIA H200 SXM data sheet; the chip is the H100's |
| b200 | NVIDIA DGX B200 data sheet; CUDA C programming guide, compute capability 10.0 |
| v5e, v5p, v6e | Google Cloud TPU documentation, "System architecture" of each version |
"""

from typing import NamedTuple

_GIB = 2**30


class GpuShape(NamedTuple):
    """The numbers that XLA's GPU compiler asks of a device.

    Attributes:
      capability: CUDA compute capability, (major, minor).
      cores: streaming multiprocessors.
      lanes: float32 units of a core.
      shared_bytes: shared memory of a core; a block gets 1 KiB less at most.
      l2_bytes: the second-level cache.
      clock_ghz: boost clock.
    """

    capability: tuple[int, int]
    cores: int
    lanes: int
    shared_bytes: int
    l2_bytes: int
    clock_ghz: float


class Link(NamedTuple):
    """What joins devices.

    Attributes:
      bytes_per_second: peak of all that a device sends at once in a ring.
      latency: seconds until a collective begins.
      step_latency: seconds of each step from device to device, however little is sent.
    """

    bytes_per_second: float
    latency: float
    step_latency: float


class Specification(NamedTuple):
    """One device of an accelerator.

    Attributes:
      name: what users call it.
      description: the full name, which JAX's device kind is or starts like.
      memory_bytes: of the device.
      bytes_per_second: peak bandwidth of its memory.
      flops_per_second: peak rate of matrix products by type; "f32" as JAX multiplies by default
        (TF32 on GPUs, bfloat16 passes on TPUs).
      link: to others of its kind.
      gpu: what XLA's GPU compiler asks; None for TPUs.
      clock_hz: cycles a second of a TPU's ``estimated_cycles``; 0 for GPUs.
    """

    name: str
    description: str
    memory_bytes: int
    bytes_per_second: float
    flops_per_second: dict[str, float]
    link: Link
    gpu: GpuShape | None = None
    clock_hz: float = 0.0


def _nvlink(bytes_per_second: float) -> Link:
    """One way, as data sheets say (half of "bidirectional"); latencies as in NCCL's model of rings
    over NVLink (its tuning constants, protocol LL)."""
    return Link(bytes_per_second, 6.6e-6, 0.6e-6)


def _ici(bytes_per_second: float) -> Link:
    """Of the two links along one axis of a slice, one way: what a ring uses, both ways round. The
    rates of links, and a microsecond a hop, are those of "How to Scale Your Model" (Google, 2025),
    chapter "How to Think About TPUs"."""
    return Link(bytes_per_second, 0.0, 1e-6)


SPECIFICATIONS: dict[str, Specification] = {
    one.name: one
    for one in (
        Specification(
            *("a100", "NVIDIA A100", 80 * _GIB, 2.039e12),
            {"f32": 156e12, "bf16": 312e12, "f16": 312e12, "f64": 19.5e12},
            _nvlink(300e9),
            GpuShape((8, 0), 108, 64, 164 * 2**10, 40 * 2**20, 1.41),
        ),
        Specification(
            *("h100", "NVIDIA H100", 80 * _GIB, 3.35e12),
            {"f32": 494.7e12, "bf16": 989.4e12, "f16": 989.4e12, "f64": 66.9e12},
            _nvlink(450e9),
            GpuShape((9, 0), 132, 128, 228 * 2**10, 50 * 2**20, 1.98),
        ),
        Specification(
            *("h200", "NVIDIA H200", 141 * 10**9, 4.8e12),
            {"f32": 494.7e12, "bf16": 989.4e12, "f16": 989.4e12, "f64": 66.9e12},
            _nvlink(450e9),
            GpuShape((9, 0), 132, 128, 228 * 2**10, 50 * 2**20, 1.98),
        ),
        Specification(
            *("b200", "NVIDIA B200", 180 * _GIB, 8e12),
            {"f32": 1.125e15, "bf16": 2.25e15, "f16": 2.25e15, "f64": 37e12},
            _nvlink(900e9),
            GpuShape((10, 0), 148, 128, 228 * 2**10, 126 * 2**20, 1.965),
        ),
        Specification(
            *("v5e", "TPU v5 lite", 16 * _GIB, 819e9),
            {"f32": 197e12, "bf16": 197e12},
            _ici(90e9),
            clock_hz=1.5e9,
        ),
        Specification(
            *("v5p", "TPU v5", 95 * _GIB, 2.765e12),
            {"f32": 459e12, "bf16": 459e12},
            _ici(180e9),
            clock_hz=1.75e9,
        ),
        Specification(
            *("v6e", "TPU v6 lite", 32 * _GIB, 1.64e12),
            {"f32": 918e12, "bf16": 918e12},
            _ici(180e9),
            clock_hz=1.75e9,
        ),
    )
}


def specification_of(device_kind: str, platform: str) -> Specification:
    """Of a device of JAX by its kind; one that isn't known is like another of its platform, so that
    times are good for ratios only."""
    known = [one for one in SPECIFICATIONS.values() if device_kind.startswith(one.description)]
    fallback = SPECIFICATIONS["v5e" if platform == "tpu" else "h100"]
    return max(known, key=lambda one: len(one.description), default=fallback)


def target_config(specification: Specification) -> str:
    """XLA's ``GpuTargetConfigProto`` of a GPU, as text."""
    gpu = specification.gpu
    assert gpu is not None
    major, minor = gpu.capability
    return f"""
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_core: {gpu.shared_bytes}
  shared_memory_per_block_optin: {gpu.shared_bytes - 1024}
  core_count: {gpu.cores} fpus_per_core: {gpu.lanes}
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: {int(specification.bytes_per_second)} l2_cache_size: {gpu.l2_bytes}
  clock_rate_ghz: {gpu.clock_ghz} device_memory_size: {specification.memory_bytes}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 8 patch: 0 }}
device_description_str: "{specification.description}"
"""
