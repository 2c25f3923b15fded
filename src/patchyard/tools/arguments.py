"""Makes a model's arguments fit a tool's schema: mends what is unambiguous, refuses the rest.

Knows no tool; the schema and the names in it are all it goes by.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from patchyard.domain.codec import is_deeper
from patchyard.domain.errors import UsageError
from patchyard.domain.nearness import near_names
from patchyard.domain.tooling import DEEPEST, ToolSpec
from patchyard.toolbox.wire import loaded

PATH_FIELDS = frozenset({"path", "cwd"})
WRAPPERS = frozenset({"arguments", "args", "input", "parameters", "params", "kwargs"})
CHATTER = frozenset(
    {
        *("explanation", "reason", "reasoning", "thought", "thoughts", "instructions"),
        *("should_read_entire_file", "is_new_file"),  # D+: said, and known anyway
    }
)
# What models trained on other tool sets call the same thing, by our name for it.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "path": (
        *("file_path", "filepath", "file", "filename", "file_name", "target_file", "target"),
        *("directory", "dir", "folder", "directory_path", "relative_workspace_path"),
    ),
    "content": ("contents", "text", "body", "file_text", "data", "file_content", "new_content"),
    "old_string": ("old_str", "old_text", "old", "search", "find", "original"),
    "new_string": ("new_str", "new_text", "new", "replace", "replacement"),
    "query": ("q", "search_query", "term", "text", "name", "pattern", "glob", "glob_pattern"),
    "pattern": ("regex", "regexp", "query", "search", "search_pattern"),
    "command": ("cmd", "command_line", "shell_command", "script", "bash", "code"),
    "cwd": ("workdir", "working_directory", "work_dir", "directory", "dir"),
    "timeout_s": ("timeout", "timeout_seconds", "time_out"),
    "background": ("is_background", "run_in_background", "detach"),
    "start_line": ("start", "from_line", "line_start", "start_line_one_indexed"),
    "end_line": ("end", "to_line", "line_end", "end_line_one_indexed_inclusive"),
    "include_pattern": ("include", "glob", "file_pattern"),
    "exclude_pattern": ("exclude",),
    "call_id": ("id", "call"),
    "job_id": ("id", "job", "call_id", "command_id", "task_id"),
    "summary": ("message", "result", "text"),
}


def fit(spec: ToolSpec, arguments: Mapping[str, Any], *, workspace: str = "") -> dict[str, Any]:
    """Return `arguments` as `spec` wants them. Raises UsageError that says what to write.

    `workspace` is the absolute path of the work tree as the model knows it; paths inside it become
    relative ones. Paths elsewhere are left for the toolbox to refuse.
    """
    properties: Mapping[str, Any] = spec.parameters["properties"]
    named = _named(spec, _unwrapped(arguments, properties), properties)
    fitted: dict[str, Any] = {}
    for name, value in named.items():
        coerced = _coerced(spec.name, name, value, properties[name])
        if name in PATH_FIELDS:
            coerced = tidy_path(coerced, workspace=workspace)
        fitted[name] = coerced
    missing = [name for name in spec.parameters.get("required", ()) if name not in fitted]
    if missing:
        raise UsageError(
            f"{spec.name} needs {_listed(missing)}",
            hint=f"call it as {example(spec)}",
        )
    return fitted


def tidy_path(text: str, *, workspace: str) -> str:
    """Return a path as the toolbox wants it: relative to the workspace where it lies inside."""
    path = text.strip("\r\n")
    for quote in ("`", '"', "'"):
        if len(path) > 2 and path.startswith(quote) and path.endswith(quote):
            path = path[1:-1]
    if path.startswith("file://"):
        path = unquote(path.removeprefix("file://").removeprefix("localhost"))
    root = workspace.rstrip("/")
    if root and (path == root or path.startswith(root + "/")):
        path = path[len(root) :].lstrip("/")
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    return path or "."


def example(spec: ToolSpec) -> str:
    """Return one call of the tool as a model would write it."""
    properties = spec.parameters["properties"]
    kinds = {"string": "...", "integer": 1, "number": 1, "boolean": True}
    shown = {
        name: kinds.get(properties[name].get("type", "string"), "...")
        for name in spec.parameters.get("required", ())
    }
    return f"{spec.name}({json.dumps(shown)})"


def _unwrapped(arguments: Mapping[str, Any], properties: Mapping[str, Any]) -> Mapping[str, Any]:
    if len(arguments) != 1:
        return arguments
    name, value = next(iter(arguments.items()))
    if name in properties or name not in WRAPPERS:
        return arguments
    if isinstance(value, str):
        try:
            value = loaded(value)
        except ValueError:
            return arguments
    is_use = isinstance(value, Mapping) and not is_deeper(value, DEEPEST)
    return value if is_use else arguments


def _named(
    spec: ToolSpec, arguments: Mapping[str, Any], properties: Mapping[str, Any]
) -> dict[str, Any]:
    found = {n: v for n, v in arguments.items() if n in properties and v is not None}
    for name, value in arguments.items():
        plain = _plain(name)
        if name in properties or value is None or plain in CHATTER:
            continue
        ours = _meant(plain, properties, found)
        if ours is None:
            near = near_names(name, properties)
            guess = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(
                f"{spec.name} has no argument {name!r}{guess}",
                hint=f"it takes {_listed(list(properties))}",
            )
        found[ours] = value
    return found


def _plain(name: str) -> str:
    """Return `name` as we write names: `filePath` and `file-path` as `file_path`."""
    parted = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    return parted.replace("-", "_").strip("_")


def _meant(plain: str, properties: Mapping[str, Any], taken: Mapping[str, Any]) -> str | None:
    if plain in properties and plain not in taken:
        return plain
    for ours in properties:
        if ours not in taken and plain in ALIASES.get(ours, ()):
            return ours
    return None


def _coerced(tool: str, name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    wanted = schema.get("type", "string")
    coerce = {"string": _as_text, "integer": _as_whole, "number": _as_number, "boolean": _as_flag}
    fitted = coerce[wanted](name, value) if wanted in coerce else value
    if fitted is None:
        raise UsageError(
            f"{tool}: {name!r} must be {_article(wanted)}, not {type(value).__name__}",
            hint=f"write {name!r} as {_article(wanted)}",
        )
    choices = schema.get("enum")
    if choices and fitted not in choices:
        raise UsageError(
            f"{tool}: {name!r} cannot be {fitted!r}", hint=f"one of {_listed(list(choices))}"
        )
    return fitted


def _as_text(name: str, value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        if name in PATH_FIELDS and len(value) != 1:
            return None
        return shlex.join(value) if name == "command" else "\n".join(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return None


def _as_number(_name: str, value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value.strip().removesuffix("s"))
        except ValueError:
            return None
    is_finite = isinstance(value, int | float) and abs(value) <= 1e9  # NaN is neither
    return value if is_finite else None


def _as_whole(name: str, value: Any) -> int | None:
    number = _as_number(name, value)
    return int(number) if number is not None and number == int(number) else None


def _as_flag(_name: str, value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    return words.get(str(value).strip().lower())


def _article(kind: str) -> str:
    return {
        "string": "a text",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
    }.get(kind, kind)


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


__all__ = ["ALIASES", "PATH_FIELDS", "example", "fit", "tidy_path"]
