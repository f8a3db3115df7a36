"""Random scheduled modules of one computation, as text, and other orders of them."""

import random

from hypothesis import strategies as st

from regal_jax.compiler.xla.module_orders import reordered

SIZES = (2, 4, 8)


@st.composite
def texts(draw, donations=False):
    """Parameters, elementwise instructions, which may work in place, and others; some results.

    With donations, parameters give their memory to outputs of their shape made after all readers.
    """
    shapes = [draw(st.sampled_from(SIZES)) for _ in range(draw(st.integers(1, 3)))]
    lines = [f"  v{i} = f32[{size}] parameter({i})" for i, size in enumerate(shapes)]
    reads = {i: i for i in range(len(shapes))}
    first = len(shapes)
    for number in range(first, first + draw(st.integers(1, 9))):
        operands = draw(st.lists(st.integers(0, number - 1), min_size=1, max_size=2))
        reads |= dict.fromkeys(operands, number)
        names = ", ".join(f"v{i}" for i in operands)
        same = len({shapes[i] for i in operands}) == 1
        if same and draw(st.booleans()):
            size, opcode = shapes[operands[0]], ("sine", "add")[len(operands) - 1]
            lines.append(f"  v{number} = f32[{size}] {opcode}({names})")
        else:
            size = draw(st.sampled_from(SIZES))
            target = f'custom-call({names}), custom_call_target="f"'
            lines.append(f"  v{number} = f32[{size}] {target}")
        shapes.append(size)
    made = st.integers(first, len(shapes) - 1)
    results = draw(st.lists(made, min_size=1, max_size=3, unique=True))
    types = ", ".join(f"f32[{shapes[i]}]" for i in results)
    lines.append(f"  ROOT t = ({types}) tuple({', '.join(f'v{i}' for i in results)})")
    aliases = []
    free = list(range(first)) if donations else []
    for output, value in enumerate(results):
        fitting = [p for p in free if shapes[p] == shapes[value] and reads[p] <= value]
        if fitting:
            free.remove(fitting[0])
            aliases.append(f"{{{output}}}: ({fitting[0]}, {{}}, may-alias)")
    header = f", input_output_alias={{ {', '.join(aliases)} }}" if aliases else ""
    body = "\n".join(lines)
    return f"HloModule m, is_scheduled=true{header}\n\nENTRY e {{\n{body}\n}}\n"


def another_order(module, seed):
    """The module with its instructions in a random order that they can run in."""
    instructions = module.computations[module.entry].instructions
    left, order, generator = dict(instructions), [], random.Random(seed)
    while left:
        ready = [name for name, one in left.items() if not left.keys() & set(one.operands)]
        order.append(generator.choice(ready))
        del left[order[-1]]
    order.sort(key=lambda name: instructions[name].opcode == "tuple")
    return reordered(module, {module.entry: order})
