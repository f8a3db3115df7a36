"""Learned schedulers for computation graphs: least memory or least time on one or more devices.

Every name is imported when it is first used, so that a program pays for what it uses alone.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regal_jax import datasets
    from regal_jax import registry as register
    from regal_jax.api import evaluate, optimize
    from regal_jax.compiler.accelerators.accelerator import Accelerator, accelerator
    from regal_jax.compiler.accelerators.measure import Measurement, measure
    from regal_jax.compiler.explain.explain import explain
    from regal_jax.compiler.onnx.reorder import reorder_onnx, save_onnx
    from regal_jax.compiler.torch.reorder import reorder_fx
    from regal_jax.compiler.ways.fit import Fitted, Frontier, fit, frontier
    from regal_jax.compiler.ways.names import SavedNames, names_to_save
    from regal_jax.compiler.xla.jit import jit, reschedule
    from regal_jax.compiler.xla.peak_allocation import measured_workspaces, peak_allocation
    from regal_jax.environments.certificates import Bound, check_bound, lower_bound
    from regal_jax.environments.execution.measured import measured, profiled_graph
    from regal_jax.environments.execution.targets import TargetModel, read_target, simulated
    from regal_jax.environments.placement.problem import PlacementProblem
    from regal_jax.environments.platform import Platform
    from regal_jax.environments.rcpsp.problem import MachineProblem
    from regal_jax.environments.schedule import Schedule, load_schedule, save_schedule
    from regal_jax.errors import RegalError
    from regal_jax.graphs.computation_graph import ComputationGraph
    from regal_jax.graphs.files import load_graph, load_graphs, save_graph, save_graphs
    from regal_jax.graphs.importers.any_file import import_graph
    from regal_jax.graphs.importers.jax.program import from_jax
    from regal_jax.graphs.importers.onnx.model import from_onnx
    from regal_jax.graphs.importers.tensorflow.cost_graph import from_cost_graph
    from regal_jax.graphs.importers.torch.model import from_torch
    from regal_jax.graphs.importers.xla.module import from_hlo
    from regal_jax.graphs.rewrites.microbatches import microbatches
    from regal_jax.options import Budget, Options, Result
else:
    from regal_jax import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            "api": "evaluate optimize",
            "compiler.accelerators.accelerator": "Accelerator accelerator",
            "compiler.accelerators.measure": "Measurement measure",
            "compiler.explain.explain": "explain",
            "compiler.onnx.reorder": "reorder_onnx save_onnx",
            "compiler.torch.reorder": "reorder_fx",
            "compiler.xla.jit": "jit reschedule",
            "compiler.ways.fit": "Fitted Frontier fit frontier",
            "compiler.ways.names": "SavedNames names_to_save",
            "compiler.xla.peak_allocation": "measured_workspaces peak_allocation",
            "datasets": "datasets",
            "environments.certificates": "Bound check_bound lower_bound",
            "environments.execution.measured": "measured profiled_graph",
            "environments.execution.targets": "TargetModel read_target simulated",
            "environments.placement.problem": "PlacementProblem",
            "environments.platform": "Platform",
            "environments.rcpsp.problem": "MachineProblem",
            "environments.schedule": "Schedule load_schedule save_schedule",
            "errors": "RegalError",
            "graphs.computation_graph": "ComputationGraph",
            "graphs.files": "load_graph load_graphs save_graph save_graphs",
            "graphs.importers.any_file": "import_graph",
            "graphs.importers.jax.program": "from_jax",
            "graphs.importers.onnx.model": "from_onnx",
            "graphs.importers.tensorflow.cost_graph": "from_cost_graph",
            "graphs.importers.torch.model": "from_torch",
            "graphs.importers.xla.module": "from_hlo",
            "graphs.rewrites.microbatches": "microbatches",
            "options": "Budget Options Result",
            "registry": "register",
        },
    )

__version__ = "0.2.0"

__all__ = [
    "Accelerator",
    "Bound",
    "Budget",
    "ComputationGraph",
    "Fitted",
    "Frontier",
    "MachineProblem",
    "Measurement",
    "Options",
    "PlacementProblem",
    "Platform",
    "RegalError",
    "Result",
    "SavedNames",
    "Schedule",
    "TargetModel",
    "accelerator",
    "check_bound",
    "datasets",
    "evaluate",
    "explain",
    "fit",
    "from_cost_graph",
    "from_hlo",
    "from_jax",
    "from_onnx",
    "from_torch",
    "frontier",
    "import_graph",
    "jit",
    "load_graph",
    "load_graphs",
    "load_schedule",
    "lower_bound",
    "measure",
    "measured",
    "measured_workspaces",
    "microbatches",
    "names_to_save",
    "optimize",
    "peak_allocation",
    "profiled_graph",
    "read_target",
    "register",
    "reorder_fx",
    "reorder_onnx",
    "reschedule",
    "save_graph",
    "save_graphs",
    "save_onnx",
    "save_schedule",
    "simulated",
]
