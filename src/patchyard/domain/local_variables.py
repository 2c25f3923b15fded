"""Variables of this machine that a devcontainer's files ask for: `${localEnv:NAME}`. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from patchyard.domain.faults import Place, spoken

LOCAL = re.compile(r"\$\{(localEnv|env):([^:}]*)")  # the CLI takes the older word, too
NAMED = 5  # places that are told


def names_in(text: str) -> list[str]:
    """Return the names that a text asks for, in its order; one may stand there twice."""
    return [found[2] for found in LOCAL.finditer(text)]


def asked_in(document: Any, place: Place = (), *, file: str = "") -> list[str]:
    """Return where a document asks for which variable: `${localEnv:NAME} in KEY.KEY`.

    `place` leads to the document, `file` is named where it is not the devcontainer.json.
    """
    of_file = f" of {file}" if file else ""
    told = (
        f"${{{found[1]}:{found[2]}}} in {spoken(where)}{of_file}"
        for where, text in _texts(document, place)
        for found in LOCAL.finditer(text)
    )
    all_told = [*dict.fromkeys(told)]
    more = [f"and {len(all_told) - NAMED} more of them"] if len(all_told) > NAMED else []
    return [*all_told[:NAMED], *more]


def _texts(document: Any, place: Place) -> Iterator[tuple[Place, str]]:
    """Yield each text of a document, keys too, with its place; depth costs no stack."""
    waiting: list[tuple[Place, Any]] = [(place, document)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, str):
            yield where, value
        elif isinstance(value, Mapping):
            yield from (((*where, key), key) for key in value)
            waiting += reversed([((*where, key), each) for key, each in value.items()])
        elif isinstance(value, list):
            waiting += reversed([((*where, number), each) for number, each in enumerate(value)])


__all__ = ["LOCAL", "NAMED", "asked_in", "names_in"]
