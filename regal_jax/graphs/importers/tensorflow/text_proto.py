"""A reader of protobuf's text format without a schema: messages become plain dictionaries.

Understood: ``field: value``, ``field { ... }``, ``field: < ... >``, lists ``[a, b]``, strings with
escapes (adjacent ones join), numbers, identifiers, comments (``#``), separators (``,`` ``;``).
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from regal_jax.errors import ImporterError

Message = dict[str, list[Any]]
"""The values of each field, in order; a nested message is a dictionary, too."""


class Token(NamedTuple):
    """A word, number, string (decoded) or single punctuation mark."""

    kind: str
    value: Any
    line: int


def parse_text_proto(text: str) -> Message:
    """Parses a text-format message. Raises ImporterError with the line number."""
    top: Message = {}
    open_messages, closers = [top], ["end of file"]
    tokens = _Tokens(text)
    while (token := tokens.take()).kind != "end":
        if token.value in (",", ";") and token.kind == "mark":
            continue
        if token.kind == "mark" and token.value == closers[-1]:
            open_messages.pop()
            closers.pop()
        elif token.kind == "word":
            closer = _read_field(tokens, token, open_messages)
            closers += [closer] if closer else []
        else:
            raise _error(token, f"expected a field name or {closers[-1]!r}")
    if len(closers) > 1:
        raise _error(token, f"expected {closers[-1]!r}")
    return top


class _Tokens:
    """A stream of tokens with one token of look-ahead."""

    def __init__(self, text: str):
        self._stream = _scan(text)
        self.next = next(self._stream)

    def take(self) -> Token:
        token = self.next
        if token.kind != "end":
            self.next = next(self._stream)
        return token

    def skip(self, mark: str) -> bool:
        """Takes the next token if it is this mark; says whether it was."""
        found = self.next.kind == "mark" and self.next.value == mark
        if found:
            self.take()
        return found


def _read_field(tokens: _Tokens, name: Token, open_messages: list[Message]) -> str:
    """Reads what follows a field's name; returns the closing mark if a message was opened."""
    values = open_messages[-1].setdefault(name.value, [])
    has_colon = tokens.skip(":")
    for opener, closer in (("{", "}"), ("<", ">")):
        if tokens.skip(opener):
            values.append({})
            open_messages.append(values[-1])
            return closer
    if not has_colon:
        raise _error(tokens.next, f"expected ':' or '{{' after {name.value!r}")
    values += _read_list(tokens) if tokens.skip("[") else [_read_scalar(tokens)]
    return ""


def _read_list(tokens: _Tokens) -> list[Any]:
    values: list[Any] = []
    while not tokens.skip("]"):
        if values and not tokens.skip(","):
            raise _error(tokens.next, "expected ',' or ']'")
        values.append(_read_scalar(tokens))
    return values


def _read_scalar(tokens: _Tokens) -> Any:
    token = tokens.take()
    if token.kind == "word":
        return {"true": True, "false": False}.get(token.value, token.value)
    if token.kind == "string":
        parts = [token.value]
        while tokens.next.kind == "string":
            parts.append(tokens.take().value)
        return "".join(parts)
    if token.kind != "number":
        raise _error(token, "expected a value")
    return token.value


_PATTERN = re.compile(
    r"""(?P<skip>[ \t\r\f\v]+|\#[^\n]*)|(?P<line>\n)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?|inf\b|nan\b))
    |(?P<word>[A-Za-z_][\w./-]*)|(?P<mark>[{}<>\[\]:,;])""",
    re.VERBOSE,
)


def _scan(text: str) -> Iterator[Token]:
    position, line = 0, 1
    while position < len(text):
        match = _PATTERN.match(text, position)
        if match is None:
            raise ImporterError(f"line {line}: can't read {text[position : position + 20]!r}")
        position = match.end()
        kind, piece = match.lastgroup, match.group()
        if kind == "line":
            line += 1
        elif kind == "string":
            yield Token(kind, _unescape(piece[1:-1]), line)
        elif kind == "number":
            yield Token(kind, _number(piece), line)
        elif kind in ("word", "mark"):
            yield Token(kind, piece, line)
    yield Token("end", "end of file", line)


def _number(piece: str) -> int | float:
    if piece.lstrip("+-").lower().startswith("0x"):
        return int(piece, 16)
    try:
        return int(piece)
    except ValueError:
        is_word = piece.lstrip("+-") in ("inf", "nan")
        return float(piece if is_word else piece.rstrip("fF"))


def _unescape(piece: str) -> str:
    return re.sub(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", _escaped_character, piece)


def _escaped_character(match: re.Match) -> str:
    code = match.group(1)
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8))
    named = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
    return named.get(code, code)


def _error(token: Token, expected: str) -> ImporterError:
    found = token.value if token.kind == "end" else repr(token.value)
    return ImporterError(f"line {token.line}: {expected}, found {found}")
