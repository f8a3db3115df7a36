"""Parts of pages that are made from the package: docs/_generated/*.md, which pages include.

Deviations from docstrings, cards of the policies from their files, methods from the registry, the
model zoo from its card. Arguments such as ``*args`` in docstrings are escaped for Sphinx.
"""

import importlib.resources
import importlib.util
import json
import re
import sys
from collections import Counter
from pathlib import Path

import deviations
import flax.serialization
import jax

import regal_jax
from regal_jax import registry
from regal_jax.reporting.tables import human_bytes, markdown_table
from regal_jax.studies.zoo import card, tables

PACKAGE = Path(regal_jax.__file__).parent
OWN = "ours, or classical"


def setup(app) -> dict:
    """Sphinx's entry point."""
    app.connect("builder-inited", write)
    app.connect("config-inited", leave_out_torch)
    app.connect("autodoc-process-docstring", escape_arguments, priority=100)
    return {"parallel_read_safe": True}


def write(app) -> None:
    """Writes the generated parts; a file that wouldn't change is left as it is."""
    folder = Path(app.srcdir) / "_generated"
    folder.mkdir(exist_ok=True)
    parts = {"deviations": deviations.page(PACKAGE), "policies": policies()}
    parts |= {"methods": methods(), "zoo": zoo()}
    for name, text in parts.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def leave_out_torch(app, config) -> None:
    """Leaves notebooks that need PyTorch out of execution where it isn't installed."""
    if importlib.util.find_spec("torch") is None:
        config.nb_execution_excludepatterns = [*config.nb_execution_excludepatterns, "*pytorch*"]
        text = "docs: notebooks/pytorch.md isn't run: PyTorch isn't installed"
        print(text, file=sys.stderr)  # no warning, which would be an error


def escape_arguments(app, what, name, obj, options, lines: list[str]) -> None:
    """``*args, **kwargs:`` at the beginning of a line isn't emphasis."""
    for number, line in enumerate(lines):
        if re.match(r"\s+\*\w+, \*\*\w+: ", line):
            lines[number] = line.replace("*", "\\*")


def policies() -> str:
    """A table of the shipped policy files, and what each says of its training."""
    files = sorted((PACKAGE / "pretrained").glob("*.policy"))
    headers = {path: _header(path) for path in files}
    table = markdown_table([_policy_row(path, content) for path, content in headers.items()])
    parts = [f"### {path.name}\n\n{_facts(content['header'])}" for path, content in headers.items()]
    return "\n\n".join([table, *parts]) + "\n"


def _header(path: Path) -> dict:
    content = flax.serialization.msgpack_restore(path.read_bytes())
    return content | {"header": json.loads(content["header"])}


def _policy_row(path: Path, content: dict) -> dict[str, str]:
    leaves = jax.tree.leaves(content["params"])
    return {
        "file": f"`{path.name}`",
        "size": human_bytes(path.stat().st_size),
        "parameters": f"{sum(leaf.size for leaf in leaves if hasattr(leaf, 'size')):,}",
        "objective": str(content["header"].get("objective", "")).replace("_", " "),
    }


def _facts(header: dict) -> str:
    """What a policy file says of itself: a line each, and its configuration."""
    lines = [f"- {key.replace('_', ' ')}: {_text(value)}" for key, value in header.items()]
    return "\n".join(lines)


def _text(value) -> str:
    if isinstance(value, dict):
        value = ", ".join(f"{key}={item!r}" for key, item in value.items())
    return f"`{value}`"


def methods() -> str:
    """What ``regal-jax methods`` lists, as a table a kind of graph."""
    parts = []
    for problem, title in (("placement", "Identical devices"), ("rcpsp", "Machine types")):
        known = [m for (p, _), m in registry.entries("method").items() if p == problem]
        rows = [_method_row(method) for method in sorted(known, key=lambda m: m.name)]
        parts.append(f"### {title}\n\n{markdown_table(rows)}")
    return "\n\n".join(parts) + "\n"


def _method_row(method: registry.Method) -> dict[str, str]:
    return {
        "method": f"`{method.name}`",
        "learned": "yes" if method.learned else "",
        "from": method.paper or OWN,
        "what it is": method.summary.replace("``", "`"),
    }


def zoo() -> str:
    """Counts of the model zoo, and what there is to gain, from its card."""
    path = importlib.resources.files("regal_jax") / "datasets/zoo/model_zoo.csv"
    rows = card.read_card(str(path))
    splits = Counter(row["split"] for row in rows)
    ops = sorted(row["ops"] for row in rows)
    text = (
        f"{len(rows):,} topologies of {len({row['family'] for row in rows}):,} families,"
        f" {ops[0]} to {ops[-1]:,} ops (median {ops[len(ops) // 2]}); by split: "
        + ", ".join(f"{name} {count:,}" for name, count in splits.items())
    )
    parts = [
        markdown_table(lines) for lines in (tables.source_table(rows), tables.headroom_table(rows))
    ]
    return "\n\n".join([text + ".", *parts]) + "\n"
