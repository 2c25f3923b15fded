"""Files that hold tool settings beside other things: the base's settings, the result's rest.

The text is put together by blocks and then read again: where that is not what was meant, nobody
is told a mixture, and the base's whole file stands.
"""

import configparser
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from patchyard.toolbox.wire import loaded

# Tables of pyproject.toml's `tool` that say what is built or installed.
BUILDING = frozenset(
    {
        *("cibuildwheel", "flit", "hatch", "maturin", "meson-python", "pdm", "pixi", "poetry"),
        *("rye", "scikit-build", "setuptools", "setuptools_scm", "setuptools-git-versioning"),
        *("uv", "versioneer", "cython", "cffi"),
    }
)
# Sections of setup.cfg that say what is built or installed, by their first word.
PACKAGING = frozenset(
    {"metadata", "options", "build", "build_ext", "bdist_wheel", "egg_info", "sdist", "aliases"}
)
# Keys of package.json that steer gates.
STEERING = frozenset(
    {
        *("ava", "c8", "eslintConfig", "eslintIgnore", "jest", "lint-staged", "mocha", "nyc"),
        *("prettier", "scripts", "standard", "stylelint", "tap", "vitest", "xo"),
    }
)
_HEADER = re.compile(r"^\s*\[{1,2}\s*([^\[\]]+?)\s*\]{1,2}\s*(?:[#;].*)?$")
Wrong = (ValueError, RecursionError, configparser.Error)


def with_base_settings(name: str, base: str, result: str) -> str | None:
    """Return the file called `name` with the settings of `base` and the rest of `result`.

    Without a file in the base, or in the result, its text is empty. Returns `result` itself where
    the settings are the same, None where the whole file is to be taken from the base.
    """
    try:
        return _MERGING[name](base, result)
    except Wrong:
        return None


def _pyproject(base: str, result: str) -> str | None:
    before, after = tomllib.loads(base), tomllib.loads(result)
    wanted = dict(after)
    tools = {
        **{key: value for key, value in _tools(after).items() if key in BUILDING},
        **{key: value for key, value in _tools(before).items() if key not in BUILDING},
    }
    wanted.pop("tool", None)
    if tools:
        wanted["tool"] = tools
    if wanted == after:
        return result
    text = _mixture(base, result, _steers_toml)
    return text if tomllib.loads(text) == wanted else None


def _tools(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found = document.get("tool", {})
    return found if isinstance(found, Mapping) else {}


def _steers_toml(header: str) -> bool:
    parts = [part.strip().strip("\"'") for part in header.split(".")]
    return parts[0] == "tool" and len(parts) > 1 and parts[1] not in BUILDING


def _setup_cfg(base: str, result: str) -> str | None:
    before, after = _sections(base), _sections(result)
    wanted = {
        **{key: value for key, value in after.items() if not _steers_cfg(key)},
        **{key: value for key, value in before.items() if _steers_cfg(key)},
    }
    if wanted == after:
        return result
    text = _mixture(base, result, _steers_cfg)
    return text if _sections(text) == wanted else None


def _sections(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(text)
    found = {name: dict(parser.items(name)) for name in parser.sections()}
    return {"DEFAULT": dict(parser.defaults()), **found}


def _steers_cfg(header: str) -> bool:
    return re.split(r"[.:]", header, maxsplit=1)[0] not in PACKAGING


def _package_json(base: str, result: str) -> str | None:
    before = loaded(base) if base else {}
    after = loaded(result) if result else {}
    if not isinstance(before, dict) or not isinstance(after, dict):
        return None
    wanted = {key: value for key, value in after.items() if key not in STEERING}
    wanted |= {key: value for key, value in before.items() if key in STEERING}
    return result if wanted == after else json.dumps(wanted, indent=2) + "\n"


def _mixture(base: str, result: str, steers: Callable[[str], bool]) -> str:
    """Return the blocks of `result` that steer nothing, then those of `base` that do."""
    kept = [text for header, text in _blocks(result) if not steers(header)]
    taken = [text for header, text in _blocks(base) if steers(header)]
    return "".join(text if text.endswith("\n") else f"{text}\n" for text in [*kept, *taken] if text)


def _blocks(text: str) -> Iterable[tuple[str, str]]:
    """Yield each block of lines below a `[header]`, with it; what stands first has none."""
    header, lines = "metadata", [""]  # nothing that steers
    for line in text.splitlines(keepends=True):
        found = _HEADER.match(line)
        if found:
            yield header, "".join(lines)
            header, lines = found[1], []
        lines.append(line)
    yield header, "".join(lines)


_MERGING: Mapping[str, Callable[[str, str], str | None]] = {
    "package.json": _package_json,
    "pyproject.toml": _pyproject,
    "setup.cfg": _setup_cfg,
}

__all__ = ["BUILDING", "PACKAGING", "STEERING", "with_base_settings"]
