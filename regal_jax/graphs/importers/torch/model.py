"""PyTorch modules, exported programs and train steps as computation graphs.

A program is traced on fake tensors: nothing is computed, no weights are needed. What becomes an op:
every ATen call, forward and backward, in program order, but
- a tensor is a storage: views are no ops; a call in place makes a new version of its storage, a
  tensor of size 0 that keeps the order (see ``lowering``); a call may make several tensors;
- dead code is dropped, constants are folded.
Parameters, state (buffers, an optimizer's moments) and inputs have no producer and are persistent;
so are gradients and outputs. FLOPs and bytes: ``flops``. What a call allocates inside (a
convolution's columns, say) isn't known: workspaces are 0. ``extra`` has the columns
``tensors.role`` (parameter, state, input, gradient, output or nothing), ``tensors.name`` and
``ops.phase`` (forward, backward, update).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

from regal_jax.errors import ImporterError, MissingDependencyError, OptionError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.roofline import A100, DeviceProfile

if TYPE_CHECKING:
    import torch

Mode = Literal["inference", "training", "training_adam"]


def from_torch(
    program: "torch.nn.Module | torch.export.ExportedProgram | Callable[..., Any]",
    *args: Any,
    mode: Mode = "inference",
    loss: "Callable[[Any], torch.Tensor] | None" = None,
    name: str | None = None,
    profile: DeviceProfile = A100,
    **kwargs: Any,
) -> ComputationGraph:
    """The graph of a module's forward pass or train step, or of any function on tensors.

    Args:
      program: a module, called in its own mode (``train()`` or ``eval()``); an exported program,
        whose example inputs are used if none are given; or a function, such as a train step that
        calls ``torch.autograd.grad`` itself.
      *args, **kwargs: example inputs: nested containers of tensors, real or on the meta device.
      mode: of a module. "training" adds the gradients of all parameters that require one;
        "training_adam" also one update in place by Adam, as torch.optim.Adam(foreach=False) does.
      loss: of the module's output, for training; by default its attribute ``loss`` if it has one,
        else the sum of the means of its floating-point tensors.
      name: of the graph; by default the module's or function's.
      profile: the device whose roofline gives the durations.

    Raises:
      MissingDependencyError: without the package torch.
      ImporterError: the program can't be traced, in one line: it fails on these inputs, its shapes
        or its control flow depend on data, or a custom op has no fake kernel.
      OptionError: an unknown mode, or no loss to train by.
    """
    try:
        import torch
    except ImportError:
        raise MissingDependencyError("torch", "torch") from None
    from regal_jax.graphs.importers.torch import lowering, tracing

    if mode not in get_args(Mode):
        raise OptionError(f"mode is {mode!r}: {', '.join(get_args(Mode))}")
    name = name or getattr(program, "__name__", "") or type(program).__name__
    if isinstance(program, torch.export.ExportedProgram):
        if not args and not kwargs:
            args, kwargs = program.example_inputs or ((), {})
        program = program.module()
    try:
        recorded = tracing.trace(program, args, kwargs, mode=mode, loss=loss)
        builder = lowering.lower(lowering.simplified(recorded))
    except ImporterError as error:
        raise ImporterError(f"{name}: {error}") from error.__cause__
    return builder.build(profile, name=name, source=f"torch-{torch.__version__}")
