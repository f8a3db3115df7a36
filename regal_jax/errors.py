"""The errors a user can cause. Each message is one line: where, what, and the remedy."""


class RegalError(ValueError):
    """Base class: the command line prints it as one line and exits with status 2."""


DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    StopIteration,
    TypeError,
    ValueError,
)
"""What reading the fields of a file that breaks its own format's rules can end in."""


class GraphError(RegalError):
    """A computation graph that breaks a rule of the format.

    Attributes:
      field: the column or key at fault, for example ``tensors.size``.
      reason: what is wrong with it.
    """

    def __init__(self, field: str, reason: str):
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class ScheduleError(RegalError):
    """A schedule that is not a valid execution of its graph, or a malformed schedule file."""


class BoundError(RegalError):
    """A lower bound that its witness doesn't show."""


class InfeasibleError(RegalError):
    """No schedule within the memory capacity was found; the command line exits with status 3."""


class LimitError(RegalError):
    """A program that needs more memory than it may; the command line exits with status 1."""


class ImporterError(RegalError):
    """A source (JAX function, ONNX model, cost graph) that can't be turned into a graph."""


class MissingDependencyError(RegalError):
    """An optional package is needed for what was asked."""

    def __init__(self, package: str, extra: str):
        super().__init__(f"this needs the package {package!r}: pip install 'regal_jax[{extra}]'")


class OptionError(RegalError):
    """An option (number of devices, evaluations, method, objective) out of its range."""


class ParameterError(RegalError):
    """A policy's parameters that aren't those of its network."""


class CompilerError(RegalError):
    """A program whose order can't be given to XLA: wrong version, platform, or kind of program."""


class DeviceMemoryError(CompilerError):
    """A program that a device's compiler refuses, since the device has less memory."""
