r"""Connections to SQLite that take any text of ours: paths of Linux need not be UTF-8.

Python keeps such bytes as lone surrogates, which SQLite's text cannot hold. They are written as
`\udce9`, and found again by the same words; what has to come back exactly is JSON, which can.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any


class TextTaking(sqlite3.Connection):
    r"""A connection that writes lone surrogates of its parameters as `\udce9`."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """See sqlite3.Connection."""
        try:
            return super().execute(sql, parameters)
        except UnicodeEncodeError:  # before anything ran: the parameters were not bound
            return super().execute(sql, _storable(parameters))

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        """See sqlite3.Connection."""
        return super().executemany(sql, map(_storable, parameters))


def _storable(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {name: _text(value) for name, value in values.items()}
    return tuple(map(_text, values))


def _text(value: Any) -> Any:
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "backslashreplace").decode()
    return value


__all__ = ["TextTaking"]
