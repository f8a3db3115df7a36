"""Self-contained HTML pages: templates that extend this package's page_base.html.

Every value is escaped; ``page_parts.html`` has the macros that the pages share.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import jinja2

from regal_jax.graphs import files


def write_page(
    package: str | None,
    values: Mapping[str, Any],
    path: str | os.PathLike,
    *,
    template: str = "page.html",
) -> None:
    """Writes a package's page with these values, atomically.

    ``title`` and ``data`` (what the script reads, as JSON) are in every page.

    Raises RegalError where the place can't be written.
    """
    assert package is not None
    page = _environment(package).get_template(template).render(values)
    data = page.encode("utf-8", "replace")
    files.write_atomically(path, lambda file: file.write(data))


def _environment(package: str) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(name, "") for name in (package, "regal_jax.reporting")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment


def paragraphs(text: str) -> list[str]:
    """The blocks of a text between empty lines, each as one line."""
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n", text)]
    return [block for block in blocks if block]


def indexed(labels: Sequence[str]) -> dict[str, list]:
    """Repetitive labels: the distinct ones, and the place of each among them."""
    place = {label: index for index, label in enumerate(dict.fromkeys(labels))}
    return {"values": list(place), "index": [place[label] for label in labels]}


def differences(numbers: Iterable[int]) -> list[int]:
    """Each number less the one before it, the first less 0."""
    return [after - before for before, after in pairwise([0, *numbers])]
