"""What each op of a JAX function's graph runs: the equations behind ``from_jax``.

The walk is the importer's: the same calls are inlined, the same equations vanish because they copy
nothing, and dead code is dropped, so op ``i`` here is op ``i`` of the graph. Instead of tensors
with sizes it keeps values. An equation that vanished runs with every op that needs its output, so
that an op reads nothing but what its graph says.

What keeps XLA from merging equal work stays: an operand of a barrier or of a rematerialised call
is read through a barrier of its own, which orders nothing.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.api_util import debug_info
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, gensym, jaxpr_as_fun

from regal_jax.graphs.importers.jax.program import inlined_program, open_program, trace
from regal_jax.graphs.importers.jax.values import renamed_inputs, value_shape

Atom = int | Literal
"""A value's number, or a literal."""


class Step(NamedTuple):
    """One equation, its inputs and outputs as values."""

    equation: JaxprEqn
    inputs: tuple[Atom, ...]
    outputs: tuple[int, ...]


class FlatOp(NamedTuple):
    """An op: the zero-copy equations that its inputs still need, and then its own.

    Attributes:
      steps: the equations in the order they run in; the last is the op's.
      reads: distinct values that must exist before.
      writes: the equation's outputs. An op with effects writes one more, of value None, which the
        next such op reads: the control tensor of the graph.
    """

    steps: tuple[Step, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]

    @property
    def has_effects(self) -> bool:
        return bool(self.steps[-1].equation.effects)

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """What the op writes, given what it reads. JAX can trace it."""
        known = dict(zip(self.reads, values, strict=True))
        run_steps(self.steps, known)
        return tuple(known.get(value) for value in self.writes)

    def last_inputs(self, values: Sequence[Any]) -> list[Any]:
        """Of the op's own equation, given what the op reads."""
        known = dict(zip(self.reads, values, strict=True))
        run_steps(self.steps[:-1], known)
        return [value_of(atom, known) for atom in self.steps[-1].inputs]


class FlatProgram(NamedTuple):
    """A traced function without calls and dead code, and the values it works on.

    Attributes:
      ops: as in the graph, op by op.
      avals: the abstract value of each value; None for that of an effect.
      num_arguments: N; the leaves of the function's arguments are the values 0..N-1.
      constants: the arrays that the function closes over, by value.
      finish: the zero-copy equations between the last ops and the results.
      results: the leaves of what the function returns.
      structure: of what the function returns, as a pytree.
    """

    ops: tuple[FlatOp, ...]
    avals: tuple[Any, ...]
    num_arguments: int
    constants: Mapping[int, Any]
    finish: tuple[Step, ...]
    results: tuple[Atom, ...]
    structure: Any

    def run(self, ops: Iterable[int], known: dict[int, Any]) -> None:
        """Runs ops, adding what they write to ``known``, where all that they read is."""
        for number in ops:
            op = self.ops[number]
            made = op(*[known[value] for value in op.reads])
            known.update(zip(op.writes, made, strict=True))

    def readers(self) -> dict[int, set[int]]:
        """The ops that read each value that is read by any."""
        found: dict[int, set[int]] = {}
        for number, op in enumerate(self.ops):
            for value in op.reads:
                found.setdefault(value, set()).add(number)
        return found

    def bases(self) -> tuple[int, ...]:
        """The distinct values that the results are made of."""
        made = {value for step in self.finish for value in step.outputs}
        read = [atom for step in self.finish for atom in step.inputs]
        values = [atom for atom in (*read, *self.results) if not isinstance(atom, Literal)]
        return tuple(dict.fromkeys(value for value in values if value not in made))

    def outputs(self, known: Mapping[int, Any]) -> Any:
        """What the function returns, given the values of ``bases()``."""
        values = dict(known)
        run_steps(self.finish, values)
        return jax.tree_util.tree_unflatten(
            self.structure, [value_of(atom, values) for atom in self.results]
        )


def flat_program(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> FlatProgram:
    """The program of ``fn(*args, **kwargs)``; its ops are those of ``from_jax`` on the same.

    Raises ImporterError: JAX can't trace the function, in one line.
    """
    name = getattr(fn, "__name__", "") or type(fn).__name__
    closed, returned = trace(fn, args, kwargs, name)
    walk = _Walk()
    arguments = [walk.new_value(variable.aval) for variable in closed.jaxpr.invars]
    results = walk.inline(closed, arguments)
    finish, bases = walk.with_renames(results)
    ops = _live(walk.ops, set(bases))
    used = {value for op in ops for value in op.reads} | set(bases)
    constants = {value: array for value, array in walk.constants.items() if value in used}
    return FlatProgram(
        tuple(ops),
        tuple(walk.avals),
        len(arguments),
        constants,
        finish,
        tuple(results),
        jax.tree_util.tree_structure(returned),
    )


def flat_jaxpr(closed: ClosedJaxpr) -> FlatProgram:
    """The program of a function that was traced."""
    return flat_program(jaxpr_as_fun(closed), *shapes_of(closed))


def shapes_of(closed: ClosedJaxpr) -> list[jax.ShapeDtypeStruct]:
    """Of a program's arguments."""
    return [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
        for aval in closed.in_avals
    ]


def run_steps(steps: Sequence[Step], known: dict[int, Any]) -> None:
    """Runs equations on concrete or traced values, adding what they make to ``known``."""
    for step in steps:
        outputs = run_equation(step.equation, [value_of(atom, known) for atom in step.inputs])
        known.update(zip(step.outputs, outputs, strict=True))


def signature(program: FlatProgram, op: FlatOp) -> tuple:
    """A key that two ops share only if they do the same to values of the same shapes and types.

    Values are known by their position among the op's own. Programs inside an equation (bodies of
    loops) are compared by identity, so a key is good for as long as its program lives.
    """
    local = {value: position for position, value in enumerate(op.reads)}
    steps = []
    for step in op.steps:
        inputs = tuple(
            _literal_key(atom) if isinstance(atom, Literal) else local[atom] for atom in step.inputs
        )
        local.update((value, len(local) + k) for k, value in enumerate(step.outputs))
        equation = step.equation
        params = tuple((key, _hashable(value)) for key, value in sorted(equation.params.items()))
        steps.append((equation.primitive, params, inputs, repr(equation.ctx)))
    avals = tuple(str(program.avals[value]) for value in op.reads)
    return avals, tuple(steps), len(op.writes)


@dataclasses.dataclass
class _Walk:
    """A jaxpr being flattened. ``renames`` finds the vanished equation that made a value."""

    ops: list[FlatOp] = dataclasses.field(default_factory=list)
    avals: list[Any] = dataclasses.field(default_factory=list)
    constants: dict[int, Any] = dataclasses.field(default_factory=dict)
    renames: dict[int, Step] = dataclasses.field(default_factory=dict)
    value_of_array: dict[int, int] = dataclasses.field(default_factory=dict)
    last_effect: tuple[int, ...] = ()

    def new_value(self, aval: Any) -> int:
        self.avals.append(aval)
        return len(self.avals) - 1

    def inline(
        self, program: ClosedJaxpr | Jaxpr, arguments: Sequence[Atom], scope: Any = None
    ) -> list[Atom]:
        """Takes in every equation of a jaxpr, in a scope of names; the values of its outputs."""
        jaxpr, constants = open_program(program)
        environment: dict[Any, Atom] = dict(zip(jaxpr.invars, arguments, strict=True))
        for variable, constant in zip(jaxpr.constvars, constants, strict=True):
            environment[variable] = self._constant(constant, variable.aval)
        for equation in jaxpr.eqns:
            equation = _scoped(equation, scope)
            inputs = tuple(self._read(environment, atom) for atom in equation.invars)
            inner = inlined_program(equation)
            if inner is None:
                outputs = self._equation(equation, inputs)
            else:
                names = equation.source_info.name_stack
                outputs = self.inline(inner, self._given(equation, inputs), names)
            environment.update(zip(equation.outvars, outputs, strict=True))
        return [self._read(environment, atom) for atom in jaxpr.outvars]

    def with_renames(self, atoms: Sequence[Atom]) -> tuple[tuple[Step, ...], tuple[int, ...]]:
        """The vanished equations that make these values, and the values that those start from."""
        steps: dict[int, Step] = {}
        bases: dict[int, None] = {}
        for atom in atoms:
            chain = []
            while not isinstance(atom, Literal) and atom in self.renames:
                chain.append(self.renames[atom])
                (atom,) = chain[-1].inputs
            if not isinstance(atom, Literal):
                bases[atom] = None
            steps.update((step.outputs[0], step) for step in reversed(chain))
        return tuple(steps.values()), tuple(bases)

    def _equation(self, equation: JaxprEqn, inputs: tuple[Atom, ...]) -> Sequence[Atom]:
        avals = [atom.aval for atom in equation.invars]
        out_avals = [variable.aval for variable in equation.outvars]
        renames = renamed_inputs(equation.primitive.name, avals, out_avals, equation.params)
        if renames and equation.primitive.name == _BARRIER:
            return self._fenced(inputs)  # one output must not wait for the inputs of another
        step = Step(
            _with_variables(equation), inputs, tuple(self.new_value(aval) for aval in out_avals)
        )
        if renames:
            self.renames[step.outputs[0]] = step
        else:
            self._add_op(step)
        return step.outputs

    def _given(self, call: JaxprEqn, inputs: tuple[Atom, ...]) -> Sequence[Atom]:
        """What the body of a call works on: rematerialised work isn't to be merged with other."""
        is_again = call.params.get("differentiated", False)
        return self._fenced(inputs) if is_again and call.params["prevent_cse"] else inputs

    def _fenced(self, inputs: Sequence[Atom]) -> list[Atom]:
        """Each value behind a barrier of its own."""
        return [one if isinstance(one, Literal) else self._fence(one) for one in inputs]

    def _fence(self, value: int) -> int:
        aval = self.avals[value]
        step = Step(_fence(aval), (value,), (self.new_value(aval),))
        self.renames[step.outputs[0]] = step
        return step.outputs[0]

    def _add_op(self, step: Step) -> None:
        renames, reads = self.with_renames(step.inputs)
        writes = step.outputs
        if step.equation.effects:
            reads += self.last_effect
            self.last_effect = (self.new_value(None),)
            writes += self.last_effect
        self.ops.append(FlatOp((*renames, step), reads, writes))

    def _read(self, environment: Mapping[Any, Atom], atom: Any) -> Atom:
        if not isinstance(atom, Literal):
            return environment[atom]
        return self._constant(atom.val, atom.aval) if value_shape(atom.aval) else atom

    def _constant(self, array: Any, aval: Any) -> int:
        if id(array) not in self.value_of_array:
            self.value_of_array[id(array)] = self.new_value(aval)
            self.constants[self.value_of_array[id(array)]] = array
        return self.value_of_array[id(array)]


def _scoped(equation: JaxprEqn, scope: Any) -> JaxprEqn:
    """The equation with the names of the calls that it was in before its own."""
    if scope is None:
        return equation
    source = equation.source_info
    return equation.replace(source_info=source.replace(name_stack=scope + source.name_stack))


_BARRIER = "optimization_barrier"


def _fence(aval: Any) -> JaxprEqn:
    """The equation of a barrier of one value."""
    (equation,) = jax.make_jaxpr(lambda value: jax.lax.optimization_barrier(value))(aval).eqns
    return equation


def _live(ops: Sequence[FlatOp], needed: set[int]) -> list[FlatOp]:
    live = []
    for op in reversed(ops):
        if op.has_effects or not needed.isdisjoint(op.writes):
            live.append(op)
            needed.update(op.reads)
    return live[::-1]


def _with_variables(equation: JaxprEqn) -> JaxprEqn:
    """The equation with variables in place of the literals that are arrays: they are values."""
    variable = gensym()
    return equation.replace(
        invars=[
            variable(atom.aval) if isinstance(atom, Literal) and value_shape(atom.aval) else atom
            for atom in equation.invars
        ]
    )


def run_equation(equation: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
    """The outputs of one equation, by JAX's own interpreter of a program of this one."""
    pairs = zip(equation.invars, values, strict=True)
    given = {atom: value for atom, value in pairs if not isinstance(atom, Literal)}
    arguments = tuple(given.values())
    debug = debug_info(str(equation.primitive), jaxpr_as_fun, arguments, {})
    debug = debug._replace(result_paths=None)
    jaxpr = Jaxpr((), tuple(given), equation.outvars, [equation], equation.effects, debug)
    return jaxpr_as_fun(ClosedJaxpr(jaxpr, ()))(*arguments)


def value_of(atom: Atom, known: Mapping[int, Any]) -> Any:
    """A literal's value, or a known one."""
    return atom.val if isinstance(atom, Literal) else known[atom]


def _literal_key(literal: Literal) -> tuple:
    return str(literal.aval), np.asarray(literal.val).tobytes()


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value
