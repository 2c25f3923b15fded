r"""Placeholders `{name}` in the steps of a recipe, filled in once and never read again.

`{{` stands for `{`; a `}}` that closes it stands for `}`. Braces that hold no name (`\d{4}`, JSON)
stay as they are.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from patchyard.domain.errors import UnknownName, UsageError

PIECE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_-]*)\}|[^{}]+|[{}]", re.DOTALL)

Quote = Callable[[str], str]


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One stretch of a template: literal text, or the name of what goes there."""

    text: str
    is_placeholder: bool = False


def pieces(template: str) -> Iterator[Piece]:
    """Yield the stretches of `template` in order."""
    open_escapes = 0
    for match in PIECE.finditer(template):
        found = match[0]
        if match[1] is not None:
            yield Piece(text=match[1], is_placeholder=True)
        elif found == "{{":
            open_escapes += 1
            yield Piece(text="{")
        elif found == "}}" and open_escapes:
            open_escapes -= 1
            yield Piece(text="}")
        else:
            yield Piece(text=found)


def names(template: str) -> tuple[str, ...]:
    """Return the placeholders of `template`, in order."""
    return tuple(piece.text for piece in pieces(template) if piece.is_placeholder)


def fill(template: str, values: Mapping[str, str], *, quote: Quote = str, place: str = "") -> str:
    """Return `template` with each placeholder replaced by its quoted value.

    Raises UnknownName for a placeholder without a value, naming `place`.
    """
    return "".join(
        quote(_value(piece.text, values, place)) if piece.is_placeholder else piece.text
        for piece in pieces(template)
    )


def fill_command(template: str, values: Mapping[str, str], *, place: str = "") -> str:
    """Return a shell command with each value as one literal word, whatever it holds.

    A value inside quotes is escaped for these quotes. Raises UsageError for a placeholder at a
    point where no quoting is safe (comments, here-documents, nested substitutions).
    """
    scan = ShellScan()
    filled = []
    for piece in pieces(template):
        if not piece.is_placeholder:
            scan.read(piece.text)
            filled.append(piece.text)
            continue
        value = _value(piece.text, values, place)
        if "\0" in value:
            raise UsageError(f"the value of {piece.text!r} holds a NUL byte", hint=place)
        filled.append(scan.quoted(piece.text, value, place))
    return "".join(filled)


def _value(name: str, values: Mapping[str, str], place: str) -> str:
    if name not in values:
        error = UnknownName.among("placeholder", name, values)
        where = f"{place}: " if place else ""
        raise UnknownName(
            f"{where}{error.message}",
            hint=f"{error.hint}; write {{{{{name}}}}} for the text itself",
            details=error.details,
        )
    return values[name]


class ShellScan:
    """Follows a command's quoting as a POSIX shell and bash read it, far enough to be safe."""

    def __init__(self) -> None:
        self._state = "plain"  # plain, single, double, comment, unsafe
        self._why = ""
        self._last = " "  # the character before, NUL after an escaped one
        self._escaped = False

    def read(self, text: str) -> None:
        """Take in literal text of the command."""
        for char in text:
            if self._escaped:
                self._escaped = False
                self._last = self._last if char == "\n" else "\0"  # a continued line is one line
                continue
            getattr(self, f"_{self._state}")(char)
            if not self._escaped:
                self._last = char

    def quoted(self, name: str, value: str, place: str) -> str:
        """Return `value` as it must stand here. Raises UsageError where nothing is safe."""
        why = self._why or ("a backslash" if self._escaped else "")
        if self._state == "comment":
            why = "a comment"
        if not why and self._last == "$" and self._state != "single":
            why = "a dollar sign"
        if why:
            raise UsageError(
                f"{place + ': ' if place else ''}{{{name}}} cannot be filled in after {why}",
                hint=f'put it into a variable first: `value={{{name}}}; ... "$value"`',
            )
        self._last = "\0"
        if self._state == "single":
            return value.replace("'", "'\"'\"'")
        if self._state == "double":
            return re.sub(r'([\\"$`])', r"\\\1", value)
        return shlex.quote(value)

    def _plain(self, char: str) -> None:
        pair = self._last + char
        if char == "\\":
            self._escaped = True
            return
        if pair in {"$'", '$"', "$[", "((", "<<"} or char == "`":
            self._refuse(pair.strip() if char != "`" else "a backtick")
        elif char == "'":
            self._state = "single"
        elif char == '"':
            self._state = "double"
        elif char == "#" and self._last in " \t\n;&|()<>":
            self._state = "comment"

    def _single(self, char: str) -> None:
        if char == "'":
            self._state = "plain"

    def _double(self, char: str) -> None:
        if char == "\\":
            self._escaped = True
        elif char == '"':
            self._state = "plain"
        elif char == "`" or self._last + char in {"$(", "${"}:
            self._refuse("a backtick" if char == "`" else f"{self._last}{char} in double quotes")

    def _comment(self, char: str) -> None:
        if char == "\n":
            self._state = "plain"

    def _unsafe(self, _char: str) -> None:
        """Nothing brings it back: what follows is not understood for certain."""

    def _refuse(self, why: str) -> None:
        self._state, self._why = "unsafe", why


__all__ = ["PIECE", "Piece", "Quote", "ShellScan", "fill", "fill_command", "names", "pieces"]
