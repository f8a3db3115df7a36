"""Any function that JAX can trace, as a computation graph.

What becomes an op: every equation of the function's jaxpr, in program order, but
- jit, closed_call, core_call, custom_jvp_call, custom_vjp_call and remat (checkpoint) are inlined;
- zero-copy equations vanish, their outputs being their inputs (``values.renamed_inputs``);
- scan, while, cond and any unknown primitive that holds jaxprs become one op each. Its workspace
  is the program-order liveness peak of one run of a body beyond the body's own inputs and outputs
  (the maximum over branches and bodies). Its FLOPs are the body's: times the length for scan, one
  iteration for while, the largest branch for cond;
- equations that lead to no output and have no effects are dropped; those with effects are kept, in
  their order, by tensors of size 0.
Arguments and closed-over constants have no producer and are persistent; scalar literals are no
tensors. FLOPs: ``flop_counts``. Bytes accessed: distinct inputs plus outputs.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from regal_jax.errors import ImporterError
from regal_jax.graphs.computation_graph import ComputationGraph
from regal_jax.graphs.importers.flop_counts import equation_flops, has_formula
from regal_jax.graphs.importers.graph_builder import GraphBuilder
from regal_jax.graphs.importers.jax.values import renamed_inputs, value_bytes, value_shape
from regal_jax.graphs.importers.roofline import A100, DeviceProfile

Value = int | None
"""A tensor's number in the builder, or None for a scalar literal."""


def from_jax(
    fn: Callable[..., Any],
    *args: Any,
    name: str | None = None,
    donate_argnums: int | Sequence[int] = (),
    profile: DeviceProfile = A100,
    **kwargs: Any,
) -> ComputationGraph:
    """The graph of ``fn(*args, **kwargs)``: forward passes, gradients, whole train steps.

    Args:
      fn: traceable by JAX; may be jitted. Bind static arguments with functools.partial.
      *args, **kwargs: pytrees of arrays or of jax.ShapeDtypeStruct (nothing is run).
      name: of the graph; by default the function's.
      donate_argnums: positions of arguments whose memory may be freed after their last use. The
        donation of a jitted ``fn`` counts, too.
      profile: the device whose roofline gives the durations.

    Returns:
      A graph whose ``extra["tensors"]["name"]`` has the arguments' pytree paths.

    Raises:
      ImporterError: JAX can't trace the function, in one line.
    """
    name = name or getattr(fn, "__name__", "") or type(fn).__name__
    lowered = lower(fn, args, kwargs, name=name, donate_argnums=donate_argnums)
    builder = lowered.builder.prune(tensor for tensor in lowered.results if tensor is not None)
    return builder.build(profile, name=name, source=f"jax-{jax.__version__}")


class LoweredFunction(NamedTuple):
    """A traced function: ``arguments`` and ``results`` are tensors of the builder, leaf by leaf.

    Dead code is still there: the builder's ``prune`` removes it and makes results persistent.
    """

    builder: GraphBuilder
    arguments: Sequence[int]
    results: Sequence[Value]


def lower(
    fn: Callable[..., Any],
    args: Sequence,
    kwargs: Mapping,
    *,
    name: str,
    donate_argnums: int | Sequence[int] = (),
) -> LoweredFunction:
    """What ``from_jax`` makes its graph of, for callers that label tensors or choose results."""
    program, _ = trace(fn, args, kwargs, name)
    donated = _donated_leaves(program, args, donate_argnums)
    paths = _argument_paths(args, kwargs)
    lowering = _Lowering(GraphBuilder(), {})
    arguments = [
        lowering.builder.add_parameter(
            value_bytes(variable.aval),
            name=paths[index] if len(paths) == len(program.jaxpr.invars) else "",
            persistent=index not in donated,
            required=True,
        )
        for index, variable in enumerate(program.jaxpr.invars)
    ]
    results = lowering.inline(program, arguments, "")
    return LoweredFunction(lowering.builder, arguments, results)


@dataclasses.dataclass
class _Lowering:
    """A jaxpr being written into a builder.

    ``constants`` finds the tensor of an array by its id, ``last_effect`` the op to wait for.
    """

    builder: GraphBuilder
    constants: dict[int, int]
    last_effect: int | None = None

    def inline(
        self, program: ClosedJaxpr | Jaxpr, arguments: Sequence[Value], scope: str
    ) -> list[Value]:
        """Writes every equation of a jaxpr; returns the tensors of its outputs."""
        jaxpr, constants = open_program(program)
        environment: dict[Any, Value] = dict(zip(jaxpr.invars, arguments, strict=True))
        for variable, constant in zip(jaxpr.constvars, constants, strict=True):
            environment[variable] = self._constant(constant, variable.aval)
        for equation in jaxpr.eqns:
            inputs = [self._read(environment, atom) for atom in equation.invars]
            outputs = self._equation(equation, inputs, scope)
            environment.update(zip(equation.outvars, outputs, strict=True))
        return [self._read(environment, atom) for atom in jaxpr.outvars]

    def _equation(self, equation: Any, inputs: list[Value], scope: str) -> Sequence[Value]:
        scope = _joined(scope, equation)
        inner = inlined_program(equation)
        if inner is not None:
            return self.inline(inner, inputs, scope)
        avals = [atom.aval for atom in equation.invars]
        out_avals = [variable.aval for variable in equation.outvars]
        if renamed_inputs(equation.primitive.name, avals, out_avals, equation.params):
            return inputs
        return self._op(equation, inputs, [value_bytes(aval) for aval in out_avals], scope)

    def _op(
        self, equation: Any, inputs: list[Value], sizes: list[int], scope: str
    ) -> tuple[int, ...]:
        bodies = _bodies(equation)
        flops, workspace = _cost(equation, bodies)
        effects = bool(equation.effects)
        reads = [tensor for tensor in inputs if tensor is not None]
        reads += [tensor for body in bodies for tensor in self._constants_of(body)]
        if effects and self.last_effect is not None:
            reads.append(self.builder.add_control(self.last_effect))
        outputs = self.builder.add_op(
            equation.primitive.name,
            reads,
            sizes,
            scope=scope,
            flops=flops,
            workspace=workspace,
            required=effects,
        )
        if effects:
            self.last_effect = len(self.builder.ops) - 1
        return outputs

    def _read(self, environment: Mapping[Any, Value], atom: Any) -> Value:
        if not isinstance(atom, Literal):
            return environment[atom]
        return None if not value_shape(atom.aval) else self._constant(atom.val, atom.aval)

    def _constant(self, constant: Any, aval: Any) -> int:
        if id(constant) not in self.constants:
            self.constants[id(constant)] = self.builder.add_parameter(value_bytes(aval))
        return self.constants[id(constant)]

    def _constants_of(self, body: ClosedJaxpr | Jaxpr) -> list[int]:
        jaxpr, constants = open_program(body)
        pairs = zip(jaxpr.constvars, constants, strict=False)
        return [self._constant(constant, variable.aval) for variable, constant in pairs]


def trace(fn: Callable, args: Sequence, kwargs: Mapping, name: str) -> tuple[ClosedJaxpr, Any]:
    """The jaxpr of ``fn(*args, **kwargs)`` and the pytree of shapes that it returns.

    Raises ImporterError.
    """
    try:
        return jax.make_jaxpr(fn, return_shape=True)(*args, **kwargs)
    except Exception as error:  # whatever the user's function raises
        lines = str(error).strip().splitlines() or [""]
        reason = f"{type(error).__name__}: {lines[0]}"
        raise ImporterError(f"{name}: JAX can't trace this function: {reason}") from error


def open_program(program: ClosedJaxpr | Jaxpr) -> tuple[Jaxpr, Sequence[Any]]:
    """A jaxpr and its constants; an open jaxpr's constants are known by their variables only."""
    if isinstance(program, ClosedJaxpr):
        return program.jaxpr, program.consts
    return program, program.constvars


def inlined_program(equation: Any) -> ClosedJaxpr | Jaxpr | None:
    """The program that stands for this equation, if it is a mere call."""
    if equation.primitive.name not in _CALLS:
        return None
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = equation.params.get(key)
        if isinstance(inner, ClosedJaxpr | Jaxpr):
            fits = len(open_program(inner)[0].invars) == len(equation.invars)
            return inner if fits else None
    return None


_CALLS = frozenset(
    """
    jit pjit closed_call core_call core_closed_call call custom_jvp_call custom_vjp_call
    custom_vjp_call_jaxpr remat remat2 checkpoint xla_call
    """.split()  # noqa: SIM905
)


def _bodies(equation: Any) -> list[ClosedJaxpr | Jaxpr]:
    """The programs an op runs; only the forward solve of custom_linear_solve."""
    if has_formula(equation.primitive.name):
        return []
    if equation.primitive.name == "custom_linear_solve":
        return [equation.params["jaxprs"].solve]
    return list(_programs(equation.params.values()))


def _programs(values: Any) -> Iterator[ClosedJaxpr | Jaxpr]:
    for value in values:
        if isinstance(value, ClosedJaxpr | Jaxpr):
            yield value
        elif isinstance(value, tuple | list):
            yield from _programs(value)


def flops_of(equation: Any) -> float:
    """FLOPs of an equation and of what it runs inside."""
    return _cost(equation, _bodies(equation))[0]


def _cost(equation: Any, bodies: Sequence[ClosedJaxpr | Jaxpr]) -> tuple[float, int]:
    """FLOPs and workspace [bytes] of one op."""
    if not bodies:
        shapes = [value_shape(atom.aval) for atom in equation.invars]
        results = [value_shape(variable.aval) for variable in equation.outvars]
        return equation_flops(equation.primitive.name, shapes, results, equation.params), 0
    costs = [_body_cost(body) for body in bodies]
    flops = [cost[0] for cost in costs]
    workspace = max(cost[1] for cost in costs)
    if equation.primitive.name == "cond":
        return max(flops), workspace
    return sum(flops) * equation.params.get("length", 1), workspace


def _body_cost(body: ClosedJaxpr | Jaxpr) -> tuple[float, int]:
    lowering = _Lowering(GraphBuilder(), {})
    arguments = [
        lowering.builder.add_parameter(value_bytes(variable.aval), required=True)
        for variable in open_program(body)[0].invars
    ]
    results = [tensor for tensor in lowering.inline(body, arguments, "") if tensor is not None]
    live = lowering.builder.prune(results)
    return live.total_flops(), live.body_workspace()


def _joined(scope: str, equation: Any) -> str:
    source = getattr(equation, "source_info", None)
    own = str(getattr(source, "name_stack", "") or "")
    return "/".join(part for part in (scope, own) if part)


def _argument_paths(args: Sequence, kwargs: Mapping) -> list[str]:
    """Where each leaf stands in the arguments: ``args[0]['params']['Dense_0']['kernel']``."""
    positional = jax.tree_util.tree_flatten_with_path(tuple(args))[0]
    named = jax.tree_util.tree_flatten_with_path(dict(kwargs))[0]
    paths = [f"args{jax.tree_util.keystr(path)}" for path, _ in positional]
    return paths + [f"kwargs{jax.tree_util.keystr(path)}" for path, _ in named]


def _donated_leaves(
    program: ClosedJaxpr, args: Sequence, donate_argnums: int | Sequence[int]
) -> set[int]:
    """Indices of the flat arguments that are donated, by us or by a jitted function itself."""
    numbers = (donate_argnums,) if isinstance(donate_argnums, int) else tuple(donate_argnums)
    if not all(-len(args) <= number < len(args) for number in numbers):
        raise ImporterError(f"donate_argnums {numbers} is out of range for {len(args)} arguments")
    positions = {number % len(args) for number in numbers}
    leaves = [i for i, arg in enumerate(args) for _ in jax.tree_util.tree_leaves(arg)]
    donated = {leaf for leaf, position in enumerate(leaves) if position in positions}
    return donated | _donated_by_jit(program.jaxpr)


def _donated_by_jit(jaxpr: Jaxpr) -> set[int]:
    """The inputs donated by the one call that is the whole program, if it is one."""
    if len(jaxpr.eqns) != 1:
        return set()
    flags = jaxpr.eqns[0].params.get("donated_invars", ())
    atoms = zip(jaxpr.eqns[0].invars, flags, strict=False)
    donated = {atom for atom, flag in atoms if flag and not isinstance(atom, Literal)}
    return {index for index, variable in enumerate(jaxpr.invars) if variable in donated}
