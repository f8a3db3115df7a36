"""Self-contained HTML pages: a package's template with its ``@@NAME@@`` parts filled in.

``@@HEAD@@`` is page_head.html: the start of every page, with the styles that all have.
"""

import html
import json
import os
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

from regal_jax.graphs import files


def write_template(package: str | None, parts: Mapping[str, str], path: str | os.PathLike) -> None:
    """Writes a package's page.html filled in, atomically. RegalError where it can't be."""
    text = _text(package, "page.html").replace("@@HEAD@@\n", _text(__package__, "page_head.html"))
    page = re.sub(r"@@([A-Z]+)@@", lambda match: parts[match[1]], text)
    data = page.encode("utf-8", "replace")
    files.write_atomically(path, lambda file: file.write(data))


def _text(package: str | None, name: str) -> str:
    assert package is not None
    return resources.files(package).joinpath(name).read_text("utf-8")


def embedded(document: Any) -> str:
    """JSON that can't end the script element it stands in, nor start a comment there."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def paragraphs(text: str) -> str:
    """Blocks of text between empty lines as paragraphs, escaped."""
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n", text)]
    return "\n".join(f"<p>{html.escape(block)}</p>" for block in blocks if block)
