import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from regal_jax.compiler.barriers.carried import Carrying
from regal_jax.compiler.barriers.kernels import bytes_of, is_cheap
from tests.compiler.barriers.programs import kernels_of, random_function, random_order, traced


def run(kernels, order, cut):
    """(values that kernels before a cut make, values that there are, ops that have run)."""
    program = kernels.program
    ran = {kernels.ops[kernel] for kernel in order[:cut]}
    late = {kernels.ops[kernel] for kernel in order[cut:]}
    known = {*range(program.num_arguments), *program.constants}
    for number, op in enumerate(program.ops):
        if number not in late and known.issuperset(op.reads):
            ran.add(number)
            known.update(op.writes)
    return known, ran


def least_bytes(kernels, order, cut):
    """By networkx, of a network of values and of the ops that may run again."""
    program = kernels.program
    known, ran = run(kernels, order, cut)
    free = {*range(program.num_arguments), *program.constants, *program.bases()}
    network = nx.DiGraph()
    network.add_nodes_from(("start", "end"))
    for value in known:
        size = 0 if value in free else bytes_of(program, value)
        network.add_edge(("in", value), ("out", value), capacity=size)
    for value in {*range(program.num_arguments), *program.constants}:
        network.add_edge("start", ("in", value))
    for number in ran:
        op = program.ops[number]
        for made in op.writes:
            if not is_cheap(op):
                network.add_edge("start", ("in", made))
            for read in op.reads if is_cheap(op) else ():
                network.add_edge(("out", read), ("in", made))
    late = [op for number, op in enumerate(program.ops) if number not in ran]
    for value in {value for op in late for value in op.reads} | set(program.bases()):
        if value in known:
            network.add_edge(("out", value), "end")
    return nx.minimum_cut_value(network, "start", "end")


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_the_first_cut_carries_the_fewest_bytes(seed):
    kernels = kernels_of(traced(random_function(seed)))
    order = random_order(kernels.graph, seed)
    program = kernels.program
    free = {*range(program.num_arguments), *program.constants, *program.bases()}
    for cut in range(1, len(order)):
        through = Carrying(kernels, order).through(cut)
        carried = sum(bytes_of(program, value) for value in through if value not in free)
        assert carried == least_bytes(kernels, order, cut)


@settings(max_examples=40)
@given(st.integers(0, 10**6))
def test_the_rest_can_be_made_from_what_is_carried(seed):
    kernels = kernels_of(traced(random_function(seed)))
    order = random_order(kernels.graph, seed)
    carrying, program = Carrying(kernels, order), kernels.program
    before, since = (), 0
    random = np.random.default_rng(seed)
    for cut in sorted(random.permutation(range(1, len(order)))[:4].tolist()):
        before, since = carrying.through(cut, before, since), cut
        known, (_, ran) = set(before), run(kernels, order, cut)
        for number, op in enumerate(program.ops):
            if (number not in ran or is_cheap(op)) and known.issuperset(op.reads):
                known.update(op.writes)
        assert known.issuperset(program.bases())
