"""Manifests with parts that package managers and hook managers run by themselves. Pure."""

import functools
import re
from collections.abc import Mapping
from typing import Any

from patchyard.domain.manifest_parts import DEPENDENCIES, PARTS
from patchyard.domain.name_patterns import NamePatterns, below_any
from patchyard.toolbox.wire import loaded

RUNNING: Mapping[str, tuple[str, ...]] = {
    name: tuple(key for part in parts for key in part.patterns) for name, parts in PARTS.items()
}
ELSEWHERE_IN = tuple(key for part in DEPENDENCIES for key in part.patterns)
# A specifier that names a folder, a file, a repository or an address in the place of a version
# (docs.npmjs.com/cli/using-npm/package-spec); `npm:`, `workspace:` and `catalog:` name packages.
ELSEWHERE = re.compile(r"(?!npm:|workspace:|catalog:|jsr:)[a-z+.-]+:|[./~]|[^@]*/", re.IGNORECASE)


@functools.cache
def manifest_names() -> NamePatterns:
    """Return the names of manifests as patterns that can be followed through links."""
    return NamePatterns([below_any(name) for name in RUNNING])


def changed_parts(name: str, old: bytes | None, new: bytes | None) -> tuple[str, ...]:
    """Return which parts that run by themselves differ in two manifests called `name`.

    None: there is none. What cannot be read as a manifest is one part, `all of it`, unless it is
    gone.
    """
    if new is None:
        return ()
    try:
        after = _parts(name, new)
        before = {} if old is None else _parts(name, old)
        return tuple(sorted(key for key in before | after if before.get(key) != after.get(key)))
    except ValueError:
        return ("all of it",)


def _parts(name: str, manifest: bytes) -> dict[str, Any]:
    """Return what runs by itself, by its key; what is empty is not there.

    Raises ValueError for what is no manifest, or nested too deep.
    """
    body = loaded(manifest.decode("utf-8-sig"))
    if not isinstance(body, dict):
        raise ValueError(f"{name} holds no object")  # noqa: TRY004 - of the text, as those of json
    found = {key: _at(body, key) for key in RUNNING[name]}
    found |= {key: _elsewhere(body.get(key)) for key in ELSEWHERE_IN}
    return {key: value for key, value in found.items() if value}


def _at(body: Mapping[str, Any], key: str) -> object:
    table, _, name = key.rpartition(".")
    within = body.get(table) if table else body
    return within.get(name) if isinstance(within, dict) else None


def _elsewhere(found: object) -> list[object]:
    """Return the specifiers that name no version, of however many tables."""
    if isinstance(found, str):
        return [found] if ELSEWHERE.match(found.strip()) else []
    if not isinstance(found, dict):
        return []
    return [[name, rows] for name, each in sorted(found.items()) if (rows := _elsewhere(each))]


__all__ = ["RUNNING", "changed_parts", "manifest_names"]
