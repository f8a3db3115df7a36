"""``rj.names_to_save``: which named values ``jax.checkpoint`` has to save, so that a step fits.

For those who keep their own code: they name values by ``jax.ad_checkpoint.checkpoint_name``, and a
policy says which of these are kept for the backward pass. The compiler says what each name costs
and spares by itself; several are taken for the sum at first (a knapsack), and then compiled.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.optimize import LinearConstraint, milp

from regal_jax.compiler.accelerators.accelerator import Accelerator
from regal_jax.compiler.accelerators.accelerator import accelerator as find
from regal_jax.compiler.accelerators.measure import compile_for, placed
from regal_jax.compiler.ways.budget import rank, too_little
from regal_jax.compiler.ways.judge import KEEP_BARRIERS, Needs, flops_ratio, needs_of
from regal_jax.compiler.xla.reschedule import MEMORY_OPTIMIZED, QUICKLY
from regal_jax.errors import LimitError, OptionError
from regal_jax.options import byte_count
from regal_jax.reporting import progress
from regal_jax.reporting.tables import human_bytes, human_flops

Policy = Callable[..., Any]
"""Of ``jax.checkpoint_policies``."""

COMPILATIONS = 50
"""At most: one without checkpoints, one that saves nothing, one a name, and the rest of several."""


class SavedNames(NamedTuple):
    """What to save within a budget.

    Attributes:
      names: for ``save_only_these_names``; None where all values may be kept, named or not.
      policy: for ``jax.checkpoint``.
      compiler_options: that CPUs' compiler needs, or it undoes all checkpoints.
      best, plain: what the function needs with this policy, and with everything saved.
      budget: bytes.
    """

    names: tuple[str, ...] | None
    policy: Policy
    compiler_options: Mapping[str, Any]
    best: Needs
    plain: Needs
    budget: int

    def __str__(self) -> str:
        within = f"within {human_bytes(self.budget)}"
        if self.names is None:
            return f"needs {human_bytes(self.plain.total)} with everything saved, {within}"
        price = human_flops(flops_ratio(self.best, self.plain))
        return (
            f"save_only_these_names({', '.join(map(repr, self.names))}): needs"
            f" {human_bytes(self.best.total)} instead of {human_bytes(self.plain.total)}, {within},"
            f" for {price}"
        )


def names_to_save(
    make: Callable[[Policy], Any],
    *args: Any,
    memory_budget: int | str,
    accelerator: str | Accelerator | None = None,
    in_shardings: Any = None,
    compilations: int = COMPILATIONS,
    **kwargs: Any,
) -> SavedNames:
    """The names whose values are worth their memory, for a policy of ``jax.checkpoint``.

    Args:
      make: takes a policy and returns the function, such as
        ``lambda policy: jax.grad(jax.checkpoint(loss, policy=policy))``; it may be jitted.
      *args, **kwargs: pytrees of arrays or ``jax.ShapeDtypeStruct``; nothing runs.
      memory_budget: bytes of one device, such as "16GiB": arguments, results, temporaries, code.
      accelerator: what to compile for, such as "h100"; by default this machine's CPU.
      in_shardings: see ``rj.measure``.
      compilations: at most.

    Raises:
      LimitError: no names that were tried are within the budget; the text says what is least.
        OptionError: the function names no values. CompilerError: no compiler for the accelerator.
    """
    budget = byte_count(memory_budget)
    target = None if accelerator is None else find(accelerator)
    if target is not None:
        args, kwargs = placed(target, args, kwargs, in_shardings)

    def needs(policy: Policy, options: Mapping[str, Any]) -> Needs:
        fn = make(policy)
        jitted = fn if hasattr(fn, "trace") else jax.jit(fn)
        quickly = QUICKLY if target is None else {}
        made = compile_for(jitted.lower(*args, **kwargs), target, {**options, **quickly})
        return needs_of(made, target)

    everything = jax.checkpoint_policies.everything_saveable
    plain = needs(everything, {})
    if plain.total <= budget:
        return SavedNames(None, everything, {}, plain, plain, budget)
    options = {} if target else {**KEEP_BARRIERS, **MEMORY_OPTIMIZED}
    with progress.status("looking for names to save"):
        search = _Search(
            named_in(make, args, kwargs),
            lambda names: needs(jax.checkpoint_policies.save_only_these_names(*names), options),
            compilations - 1,
        )
        names = search.within(budget)
    best = search.known[names]
    if best.total > budget:
        raise LimitError(
            f"{too_little(best, budget)}, saving {', '.join(sorted(names)) or 'no name'}, of which"
            f" arguments {human_bytes(best.arguments)}; with jax.checkpoint around smaller parts,"
            " such as each layer, or by rj.fit, it could be less"
        )
    ordered = tuple(name for name in search.names if name in names)
    policy = jax.checkpoint_policies.save_only_these_names(*ordered)
    return SavedNames(ordered, policy, options, best, plain, budget)


def named_in(make: Callable[[Policy], Any], args: tuple, kwargs: Mapping[str, Any]) -> list[str]:
    """The names in what is under ``jax.checkpoint``, as they come. OptionError without any."""
    found: dict[str, None] = {}

    def policy(primitive: Any, *_: Any, **parameters: Any) -> bool:
        if primitive.name == "name":
            found[parameters["name"]] = None
        return True

    jax.eval_shape(make(policy), *args, **kwargs)
    if not found:
        raise OptionError(
            "names_to_save: no value under jax.checkpoint(..., policy=policy) has a name: use"
            " jax.ad_checkpoint.checkpoint_name(value, name) where they are made"
        )
    return list(found)


class _Search:
    """Sets of names that were compiled, and the search for more.

    Args:
      names: all.
      needs: compiles with some of them saved.
      compilations: at most, but two at least.

    Attributes:
      names: all. known: what was compiled.
    """

    def __init__(
        self,
        names: Sequence[str],
        needs: Callable[[frozenset[str]], Needs],
        compilations: int,
    ):
        self.names, self._needs, self._most = names, needs, max(compilations, 1)
        self.known: dict[frozenset[str], Needs] = {}

    def within(self, budget: int) -> frozenset[str]:
        """The names with the fewest FLOPs within a budget, or else with the fewest bytes."""
        nothing = frozenset[str]()
        for names in (nothing, *(frozenset([name]) for name in self.names)):
            self._is_new(names)
        self._by_sums(budget)
        while any(self._is_new(near) for near in self._near(self._best(budget))):
            pass
        return self._best(budget)

    def _by_sums(self, budget: int) -> None:
        """What a knapsack holds, which is made smaller until what it holds is within the budget."""
        none = self.known[frozenset()]
        alone = {name: self.known.get(frozenset([name]), none) for name in self.names}
        spared = np.array([none.flops - alone[name].flops for name in self.names])
        costs = np.array([alone[name].total - none.total for name in self.names], float)
        room = float(budget - none.total)
        while room > 0:
            held = _knapsack(spared, costs, room)
            names = frozenset(
                name for name, is_held in zip(self.names, held, strict=True) if is_held
            )
            if not self._is_new(names) or self.known[names].total <= budget:
                return
            room = min(room, costs[held].sum()) - max(1, self.known[names].total - budget)

    def _is_new(self, names: frozenset[str]) -> bool:
        """Compiles these, unless they are known, or too many are."""
        if names in self.known or len(self.known) >= self._most:
            return False
        self.known[names] = self._needs(names)
        return True

    def _best(self, budget: int) -> frozenset[str]:
        return min(self.known, key=lambda names: rank(self.known[names], budget))

    def _near(self, names: frozenset[str]) -> list[frozenset[str]]:
        """One name more, or less."""
        return [names ^ {name} for name in self.names]


def _knapsack(spared: np.ndarray, costs: np.ndarray, room: float) -> np.ndarray:
    """bool[N]: what spares most with costs of no more than ``room``."""
    most, scale = np.abs(costs).max(initial=1.0), np.abs(spared).max(initial=1.0)
    found = milp(
        -spared / scale,
        integrality=np.ones(len(costs)),
        bounds=(0, 1),
        constraints=LinearConstraint(costs[None] / most, ub=room / most),
    )
    return found.x > 0.5
