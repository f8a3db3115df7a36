"""Self-contained HTML pages: a template of this package with its ``@@NAME@@`` parts filled in.

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


def write_template(template: str, parts: Mapping[str, str], path: str | os.PathLike) -> None:
    """Writes a page, atomically. RegalError where the place can't be written."""
    text = _text(template).replace("@@HEAD@@\n", _text("page_head.html"))
    page = re.sub(r"@@([A-Z]+)@@", lambda match: parts[match[1]], text)
    data = page.encode("utf-8", "replace")
    files.write_atomically(path, lambda file: file.write(data))


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def embedded(document: Any) -> str:
    """JSON that can't end the script element it stands in, nor start a comment there."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def paragraphs(text: str) -> str:
    """Blocks of text between empty lines as paragraphs, escaped."""
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n", text)]
    return "\n".join(f"<p>{html.escape(block)}</p>" for block in blocks if block)
