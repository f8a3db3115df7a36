"""Tracing modules and functions on fake tensors: forward passes, gradients, Adam steps."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path, tree_map

from regal_jax.errors import ImporterError, OptionError, RegalError
from regal_jax.graphs.importers.torch.lowering import TorchProgram
from regal_jax.graphs.importers.torch.recording import Recorder, TensorView

Tensors = dict[str, torch.Tensor]
Loss = Callable[[Any], torch.Tensor]


def trace(
    program: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    mode: str,
    loss: Loss | None,
) -> TorchProgram:
    """Records a module or function; see ``from_torch``. Raises ImporterError and OptionError."""
    tracer = _Tracer(FakeTensorMode(allow_non_fake_inputs=True))
    arguments = tree_map(tracer.fake, (tuple(args), dict(kwargs)))
    is_module = isinstance(program, torch.nn.Module)
    if mode != "inference" and not is_module:
        raise OptionError(f"mode {mode!r} needs a module; let the function take its own gradients")
    with _one_line_errors():
        if is_module:
            results = tracer.run_module(program, arguments, mode, loss)
        else:
            with tracer.recording():
                results = {"output": program(*arguments[0], **arguments[1])}
    tracer.named["input"] = _named_inputs(arguments)
    return tracer.program(results)


class _Tracer:
    """A recorder, the fake tensors that stand for real ones, and what is known by name.

    ``named`` holds the tensors that exist before the program runs, by role and name.
    """

    def __init__(self, fake_mode: FakeTensorMode):
        self.fake_mode = fake_mode
        self.recorder = Recorder(fake_mode)
        self.named: dict[str, Tensors] = {}
        self._of_meta: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def fake(self, value: Any) -> Any:
        """The fake tensor of a tensor, on the CPU if that is on the meta device."""
        if not isinstance(value, torch.Tensor):
            return value
        if not value.is_meta:
            return self.fake_mode.from_tensor(value)
        if id(value) not in self._of_meta:
            stand_in = self.fake_like(value).requires_grad_(value.requires_grad)
            self._of_meta[id(value)] = value, stand_in
        return self._of_meta[id(value)][1]

    def fake_like(self, tensor: torch.Tensor) -> torch.Tensor:
        """A new fake tensor of this layout, that no recorded call makes."""
        with self.fake_mode:
            device = "cpu" if tensor.is_meta else tensor.device
            layout = tuple(tensor.shape), tensor.stride()
            return torch.empty_strided(*layout, dtype=tensor.dtype, device=device)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        with self.fake_mode, self.recorder:
            yield

    def run_module(
        self, module: torch.nn.Module, arguments: Any, mode: str, loss: Loss | None
    ) -> dict[str, Any]:
        """Runs the module in a mode; returns its results by role."""
        parameters = dict(module.named_parameters(remove_duplicate=False))
        buffers = dict(module.named_buffers(remove_duplicate=False))
        parameters, buffers = tree_map(self.fake, (parameters, buffers))
        trained = _distinct({k: v for k, v in parameters.items() if v.requires_grad})
        moments = self._moments(trained) if mode == "training_adam" else {}
        self.named = {"parameter": parameters, "state": buffers | moments}
        with self.recording():
            with torch.set_grad_enabled(mode != "inference"), _scopes(module, self.recorder):
                output = torch.func.functional_call(module, parameters | buffers, *arguments)
            if mode == "inference":
                return {"output": output}
            gradients, value = _gradients(trained, output, loss, self.recorder)
            if moments:
                _adam_step(trained, gradients, moments, self.recorder)
        return {"output": value, "gradient": gradients}

    def program(self, results: Mapping[str, Any]) -> TorchProgram:
        """What was recorded, with its results by role."""
        names: dict[int, str] = {}
        roles: dict[int, str] = {}
        for role, tensors in self.named.items():
            for name, tensor in tensors.items():
                storage = self.recorder.view(tensor).storage
                names.setdefault(storage, name)
                roles.setdefault(storage, role)
        views: list[TensorView] = []
        for role, values in results.items():
            for tensor in _tensors_in(values):
                views.append(self.recorder.view(tensor))
                roles.setdefault(views[-1].storage, role)
        return TorchProgram(
            calls=tuple(self.recorder.calls),
            num_bytes=tuple(self.recorder.num_bytes),
            names=names,
            roles=roles,
            results=tuple(views),
        )

    def _moments(self, trained: Tensors) -> Tensors:
        kinds = ("exp_avg", "exp_avg_sq")
        return {f"{k}.{kind}": self.fake_like(v) for k, v in trained.items() for kind in kinds}


def default_loss(output: Any) -> torch.Tensor:
    """The output's attribute ``loss``, or the sum of the means of its floating-point tensors."""
    own = getattr(output, "loss", None)
    if isinstance(own, torch.Tensor):
        return own
    tensors = [t for t in _tensors_in(output) if t.is_floating_point() and t.requires_grad]
    if not tensors:
        raise OptionError("no floating-point output to train by depends on a parameter")
    return sum((tensor.mean() for tensor in tensors[1:]), tensors[0].mean())


def _gradients(trained: Tensors, output: Any, loss: Loss | None, recorder: Recorder):
    """The gradients of the parameters that lead to the loss, and the loss."""
    value = (loss or default_loss)(output)
    if not trained or not value.requires_grad:
        raise OptionError("no parameter that requires a gradient leads to the loss")
    recorder.phase = "backward"
    found = torch.autograd.grad(value, list(trained.values()), allow_unused=True)
    pairs = zip(trained, found, strict=True)
    return {key: gradient for key, gradient in pairs if gradient is not None}, value


def _adam_step(trained: Tensors, gradients: Tensors, moments: Tensors, recorder: Recorder) -> None:
    """One step in place, call by call as torch.optim.Adam(foreach=False) makes it."""
    recorder.phase = "update"
    with torch.no_grad():
        for key, gradient in gradients.items():
            mean, square = moments[f"{key}.exp_avg"], moments[f"{key}.exp_avg_sq"]
            mean.lerp_(gradient, 0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            denominator = (square.sqrt() / 0.03).add_(1e-8)
            trained[key].addcdiv_(mean, denominator, value=-0.01)


def _distinct(tensors: Tensors) -> Tensors:
    """The tensors under their first names."""
    first = {id(tensor): (name, tensor) for name, tensor in reversed(tensors.items())}
    return dict(reversed(first.values()))


def _named_inputs(arguments: Any) -> Tensors:
    args, kwargs = arguments
    flat = [*tree_flatten_with_path(args)[0], *tree_flatten_with_path(kwargs)[0]]
    return {f"input{keystr(path)}": leaf for path, leaf in flat if isinstance(leaf, torch.Tensor)}


def _tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """Every tensor in nested containers and objects, once a place."""
    for leaf in tree_flatten(values)[0]:
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif dataclasses.is_dataclass(leaf) or type(leaf).__module__.split(".")[0] not in _PLAIN:
            yield from _tensors_in(list(getattr(leaf, "__dict__", {}).values()))


_PLAIN = ("builtins", "torch", "numpy", "enum", "types", "functools")


@contextlib.contextmanager
def _scopes(module: torch.nn.Module, recorder: Recorder) -> Iterator[None]:
    """Tells the recorder which submodule runs, as long as this is open."""
    stack = [""]

    def entering(path: str) -> Callable:
        def hook(*_: Any) -> None:
            stack.append(path)
            recorder.scope = path

        return hook

    def leaving(*_: Any) -> None:
        stack.pop()
        recorder.scope = stack[-1]

    handles = []
    for path, submodule in module.named_modules():
        handles.append(submodule.register_forward_pre_hook(entering(path)))
        handles.append(submodule.register_forward_hook(leaving, always_call=True))
    try:
        yield
    finally:
        recorder.scope = ""
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """Whatever the user's program or PyTorch raises, as an ImporterError of one line."""
    try:
        yield
    except RegalError:
        raise
    except fake_tensor.DataDependentOutputException as error:
        raise ImporterError(f"its control flow depends on data ({error.func})") from error
    except fake_tensor.DynamicOutputShapeException as error:
        raise ImporterError(f"its shapes depend on data ({error.func})") from error
    except fake_tensor.UnsupportedOperatorException as error:
        raise ImporterError(f"the op {error.func} has no fake kernel") from error
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        message = f"PyTorch can't trace it: {type(error).__name__}: {reason}"
        raise ImporterError(message) from error
