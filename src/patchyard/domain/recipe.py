"""The steps of a recipe as records, and how they are read from plain data."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchyard.domain.faults import Fault, Place, check_keys, kind_of, spoken
from patchyard.domain.template import fill, names

RUN_TIMEOUT_S = 600.0  # of a step's command; tools in a model's hand default to less
MOST_STEPS = 10_000  # declared in one recipe, nested ones counted
DEEPEST = 8  # steps within steps

FILE = "file"  # the placeholder that a loop fills in


@dataclass(frozen=True, kw_only=True)
class Run:
    """Run a command; it fails unless it exits with 0."""

    command: str  # template, values quoted for the shell
    cwd: str = ""  # folder, relative to the workspace; template
    timeout_s: float = RUN_TIMEOUT_S


@dataclass(frozen=True, kw_only=True)
class Replace:
    """Replace every match of a regular expression in each named file."""

    files: str  # glob, template; inside a loop it defaults to the loop's file
    pattern: str  # Python's syntax, `^` and `$` at line ends; template, values as literal text
    replacement: str  # groups as \\1 or \\g<name>; template, values as literal text
    ignore_case: bool = False
    dot_all: bool = False  # `.` is a line end too
    required: bool = False  # fails when nothing matches anywhere


@dataclass(frozen=True, kw_only=True)
class WriteFile:
    """Write a whole file."""

    path: str  # template
    content: str  # template


@dataclass(frozen=True, kw_only=True)
class Patch:
    """Apply a unified diff; nothing in it is filled in."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ForEach:
    """Carry out steps once for each named file, in the order of their names."""

    files: str  # glob, template
    steps: tuple["Step", ...]


@dataclass(frozen=True, kw_only=True)
class When:
    """Choose by the exit code of a command."""

    condition: Run
    exit_codes: tuple[int, ...]  # that choose `then`
    then: tuple["Step", ...] = ()
    otherwise: tuple["Step", ...] = ()


@dataclass(frozen=True, kw_only=True)
class Fail:
    """End the work with a message."""

    message: str  # template


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step with what is said about it."""

    does: Run | Replace | WriteFile | Patch | ForEach | When | Fail
    place: str  # such as steps[2], for messages
    name: str = ""  # for people
    goes_on: bool = False  # on_error: continue


_COMMON = ("name", "on_error")


def parse_steps(
    value: Any, arguments: Sequence[str] = (), *, place: Place = ("steps",)
) -> tuple[Step, ...]:
    """Return the steps that plain data describes.

    `arguments` are the names that placeholders may use. Raises Fault with the place of what does
    not fit: an unknown key, a wrong type, a bad regular expression, an unknown placeholder.
    """
    steps = _Reader(frozenset(arguments)).steps(value, place)
    if _count(steps) > MOST_STEPS:
        raise Fault(place, f"more than {MOST_STEPS} steps")
    return steps


def _count(steps: Sequence[Step]) -> int:
    inner = 0
    for step in steps:
        if isinstance(step.does, ForEach):
            inner += _count(step.does.steps)
        elif isinstance(step.does, When):
            inner += _count(step.does.then) + _count(step.does.otherwise)
    return len(steps) + inner


class _Reader:
    """Reads steps under the names that are known at their place."""

    def __init__(self, arguments: frozenset[str], *, in_loop: bool = False, depth: int = 0) -> None:
        self._arguments = arguments
        self._in_loop = in_loop
        self._depth = depth
        self._kinds: Mapping[str, Callable[[Any, Place], Any]] = {
            "run": self._run,
            "replace": self._replace,
            "write_file": self._write_file,
            "patch": self._patch,
            "for_each": self._for_each,
            "when": self._when,
            "fail": self._fail,
        }

    def steps(self, value: Any, place: Place) -> tuple[Step, ...]:
        """Return a list of steps."""
        if self._depth > DEEPEST:
            raise Fault(place, f"steps lie more than {DEEPEST} deep")
        if not isinstance(value, (list, tuple)):
            raise Fault(place, f"must be a list of steps, not {kind_of(value)}")
        return tuple(self._step(item, (*place, number)) for number, item in enumerate(value))

    def _step(self, value: Any, place: Place) -> Step:
        body = check_keys(value, place, [*self._kinds, *_COMMON])
        chosen = [name for name in body if name in self._kinds]
        if len(chosen) != 1:
            said = " and ".join(chosen) or "none of them"
            raise Fault(
                place, f"a step does exactly one thing, this one {said}", hint=_one_of(self._kinds)
            )
        on_error = body.get("on_error", "fail")
        if on_error not in {"fail", "continue"}:
            raise Fault((*place, "on_error"), f"{on_error!r} is neither 'fail' nor 'continue'")
        kind = chosen[0]
        return Step(
            does=self._kinds[kind](body[kind], (*place, kind)),
            place=spoken(place),
            name=str(body.get("name", "")),
            goes_on=on_error == "continue",
        )

    def _run(self, value: Any, place: Place) -> Run:
        if isinstance(value, str):
            return Run(command=self._template(value, place))
        return self._command(check_keys(value, place, ("command", "cwd", "timeout_s")), place)

    def _command(self, body: Mapping[str, Any], place: Place, key: str = "command") -> Run:
        timeout = body.get("timeout_s", RUN_TIMEOUT_S)
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or timeout <= 0:
            raise Fault((*place, "timeout_s"), "must be a number of seconds above 0")
        return Run(
            command=self._text(body, key, place),
            cwd=self._text(body, "cwd", place, default=""),
            timeout_s=float(timeout),
        )

    def _replace(self, value: Any, place: Place) -> Replace:
        flags = ("ignore_case", "dot_all", "required")
        body = check_keys(value, place, ("files", "pattern", "with", *flags))
        pattern = self._text(body, "pattern", place)
        _compiled(pattern, (*place, "pattern"))
        return Replace(
            files=self._files(body, place),
            pattern=pattern,
            replacement=self._text(body, "with", place),
            **{name: self._flag(body, name, place) for name in flags},
        )

    def _files(self, body: Mapping[str, Any], place: Place) -> str:
        default = f"{{{FILE}}}" if self._in_loop else None
        return self._text(body, "files", place, default=default)

    def _write_file(self, value: Any, place: Place) -> WriteFile:
        body = check_keys(value, place, ("path", "content"))
        return WriteFile(
            path=self._text(body, "path", place), content=self._text(body, "content", place)
        )

    def _patch(self, value: Any, place: Place) -> Patch:
        if not isinstance(value, str) or "@@" not in value:
            raise Fault(place, "must be the text of a unified diff")
        return Patch(text=value)

    def _for_each(self, value: Any, place: Place) -> ForEach:
        body = check_keys(value, place, ("files", "steps"))
        inner = _Reader(self._arguments | {FILE}, in_loop=True, depth=self._depth + 1)
        return ForEach(
            files=self._text(body, "files", place),
            steps=inner.steps(body.get("steps"), (*place, "steps")),
        )

    def _when(self, value: Any, place: Place) -> When:
        keys = ("run", "cwd", "timeout_s", "exit_code", "then", "else")
        body = check_keys(value, place, keys)
        inner = _Reader(self._arguments, in_loop=self._in_loop, depth=self._depth + 1)
        return When(
            condition=self._command(body, place, key="run"),
            exit_codes=_codes(body.get("exit_code", 0), (*place, "exit_code")),
            then=inner.steps(body.get("then", []), (*place, "then")),
            otherwise=inner.steps(body.get("else", []), (*place, "else")),
        )

    def _fail(self, value: Any, place: Place) -> Fail:
        if not isinstance(value, str):
            raise Fault(place, f"must be a message, not {kind_of(value)}")
        return Fail(message=self._template(value, place))

    def _text(
        self, body: Mapping[str, Any], key: str, place: Place, *, default: str | None = None
    ) -> str:
        if key not in body:
            if default is None:
                raise Fault(place, f"{key!r} is missing")
            return default
        value = body[key]
        if not isinstance(value, str):
            raise Fault(
                (*place, key), f"must be text, not {kind_of(value)}", hint="put it in quotes"
            )
        return self._template(value, (*place, key))

    def _template(self, text: str, place: Place) -> str:
        for name in names(text):
            if name not in self._arguments:
                raise Fault(
                    place,
                    f"{{{name}}} is no argument of this action",
                    hint=f"known: {', '.join(sorted(self._arguments)) or 'none'}; "
                    f"write {{{{{name}}}}} for the text itself",
                )
        return text

    def _flag(self, body: Mapping[str, Any], key: str, place: Place) -> bool:
        value = body.get(key, False)
        if not isinstance(value, bool):
            raise Fault((*place, key), f"must be true or false, not {kind_of(value)}")
        return value


def _codes(value: Any, place: Place) -> tuple[int, ...]:
    codes = value if isinstance(value, (list, tuple)) else [value]
    if not codes or any(isinstance(code, bool) or not isinstance(code, int) for code in codes):
        raise Fault(place, "must be an exit code or a list of them")
    return tuple(codes)


def _compiled(template: str, place: Place) -> None:
    """Refuse a pattern that is no regular expression whatever its placeholders hold."""
    filled = fill(template, dict.fromkeys(names(template), "x"))
    try:
        re.compile(filled, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        raise Fault(place, f"is no regular expression: {error}") from error


def _one_of(kinds: Mapping[str, Any]) -> str:
    return f"one of {', '.join(sorted(kinds))}"


__all__ = [
    "DEEPEST",
    "FILE",
    "MOST_STEPS",
    "RUN_TIMEOUT_S",
    "Fail",
    "ForEach",
    "Patch",
    "Replace",
    "Run",
    "Step",
    "When",
    "WriteFile",
    "parse_steps",
]
