"""Deviations from the papers, as docstrings state them: one Markdown page.

An item of a docstring (a paragraph with its bullets, an argument) is one where it has a phrase of
``PHRASES``. Its paper goes by the module: a module that has items and stands under no prefix of
``PAPERS`` is an error, so that none is left out.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PHRASES = re.compile(
    r"\bDeviations?\b(?=:| from)|\bnot\s+in\s+the\s+papers?\b|\(ours\b|,\s+ours[,:.]"
    r"|\b(?:isn't|aren't)\s+published\b|\b[CEF]\.\d\s+doesn't\s+say|\bopen, chosen here\b"
    r"|[;]\s*ours\s+(?:is|are)\b"
    r"|\b[Tt]he\s+papers?\s+(?:doesn't|does\s+not|don't|leaves?|says?\s+(?:nothing|neither)"
    r"|gives?\s+no|names?\s+no|has\s+no|is\s+silent)\b"
)
PAPERS = {
    "REGAL (regal_transfer_learning, regal_zero_shot_workshop)": (
        *("policies/regal", "policies/networks/lstm", "policies/networks/message_passing"),
        *("training/regal", "methods/regal", "methods/classical"),
        *("search/evolution", "search/local_search", "search/cp_sat/placement"),
        *("search/placements/partitioning", "graphs/features/placement", "datasets/synthetic"),
        *("studies/regal", "methods/tuned", "methods/evolution"),
    ),
    "Neural topological ordering (neural_topological_ordering)": (
        *("policies/topological_order", "policies/networks/topoformer", "search/orders"),
        *("training/topological_order", "training/ordering", "methods/topoformer"),
        *("graphs/features/ordering", "datasets/layered", "datasets/zoo/load"),
    ),
    "One-shot priority sampling (one_shot_priority_sampling)": (
        *("policies/one_shot", "training/one_shot", "methods/one_shot", "methods/rcpsp"),
        *(
            "search/rcpsp",
            "search/cp_sat/rcpsp",
            "environments/rcpsp",
            "datasets/job_shop",
            "datasets/machine",
        ),
        *("studies/one_shot", "graphs/features/rcpsp"),
    ),
    "Robust scheduling with GFlowNets (gflownet_robust_scheduling)": (
        *("policies/gflownet", "training/gflownet", "training/flow", "training/ppo"),
        *("methods/samplers", "methods/trials", "environments/execution", "reporting/diversity"),
        *(
            "environments/construction",
            "search/placements/candidates",
            "graphs/features/construction",
        ),
        *("graphs/rewrites/subgraphs", "datasets/flow_corpora", "datasets/makespan_graphs"),
        *(
            "studies/gflownet",
            "search/placements/calibration",
            "search/list_scheduling/price_sweep",
        ),
    ),
    "Classical list scheduling": ("search/list_scheduling/heuristics",),
    "Ours: no paper to deviate from": (
        *("methods/dispatching", "methods/sequencing", "methods/next_op", "policies/choosing"),
        *("training/self_labelling", "environments/ordering", "search/orders/choices"),
    ),
    "Tabu search with path relinking (Peng, Lue and Cheng 2015)": ("search/disjunctive",),
    "Moccasin (arXiv 2304.14463)": ("search/cp_sat/recompute",),
}


class Item(NamedTuple):
    """A deviation: the module and the definition that states it, and what it says."""

    module: str
    name: str
    text: str


def page(package: Path) -> str:
    """The Markdown page. ValueError for items of a module without a paper."""
    grouped: dict[str, list[Item]] = {paper: [] for paper in PAPERS}
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package).with_suffix("").as_posix()
        for item in items(path.read_text(), module):
            grouped[_paper(module)].append(item)
    return "\n\n".join(_section(paper, found) for paper, found in grouped.items() if found) + "\n"


def items(source: str, module: str) -> Iterator[Item]:
    """The deviations that a module's docstrings state."""
    for name, docstring in docstrings(ast.parse(source), ""):
        for text in _split(inspect.cleandoc(docstring)):
            if PHRASES.search(text):
                yield Item(module, name, text)


def docstrings(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    """(qualified name, docstring) of a definition, and of all that it holds, constants too."""
    previous = None
    for child in getattr(node, "body", []):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            if isinstance(child.value.value, str):
                yield _assigned(previous) or name, child.value.value
        elif isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield from docstrings(child, f"{name}.{child.name}".lstrip("."))
        previous = child


def _assigned(node: ast.AST | None) -> str:
    """What a constant's docstring is of."""
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node.target)
    return ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""


def _split(docstring: str) -> list[str]:
    """Paragraphs, each with the bullets behind it, and arguments."""
    starts = r"\n\s*\n(?!\s*- )|\n(?=  \*{0,2}\w+(?:, \*{0,2}\w+)*: )"
    return [part for part in re.split(starts, docstring) if part.strip()]


def _paper(module: str) -> str:
    for paper, prefixes in PAPERS.items():
        if module.startswith(prefixes):
            return paper
    raise ValueError(f"docs/_ext/deviations.py: {module}: states a deviation, from which paper?")


def _section(paper: str, found: list[Item]) -> str:
    lines = [f"## {paper}"]
    for module in dict.fromkeys(item.module for item in found):
        lines.append(f"**`{module}.py`**")
        rows = [item for item in found if item.module == module]
        lines.append("\n".join(f"- {_of(item)}{_markdown(item.text)}" for item in rows))
    return "\n\n".join(lines)


def _of(item: Item) -> str:
    return f"`{item.name}`: " if item.name else ""


def _markdown(text: str) -> str:
    """An item as Markdown: code as code, bullets as bullets, nothing else marked up."""
    text = re.sub(r"^\s*(?:- |Args:\s|Attributes:\s)", "", text)
    lines = [" ".join(line.split()) for line in re.split(r"\n\s*- ", text)]
    return "\n  - ".join(map(_plain, lines))


def _plain(text: str) -> str:
    parts = re.split(r"``(.*?)``", text)
    escaped = [re.sub(r"([\\*_`<>\[\]$])", r"\\\1", part) for part in parts[::2]]
    code = [f"`{part}`" for part in parts[1::2]]
    return "".join(a + b for a, b in zip(escaped, [*code, ""], strict=True))
