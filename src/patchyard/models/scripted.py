"""A scripted model: replies written by hand, for demonstrations and tests. It thinks nothing.

Which reply comes next follows from the request alone (its purpose and turn), so a script goes on
where it was after a crash. It does not know what the replies are about.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchyard.clients.reader import NotPlain, plain_file
from patchyard.clients.yaml import parse_yaml
from patchyard.contracts.model import OnText
from patchyard.domain.errors import ModelFailed, UsageError
from patchyard.domain.faults import Fault, Place, check_keys
from patchyard.domain.messages import (
    Message,
    ModelFacts,
    ModelReply,
    ModelRequest,
    RequestedCall,
    Speaker,
    StopReason,
    Usage,
    estimated_usage,
)
from patchyard.toolbox.wire import TOO_DEEP, loaded

SCRIPT_CHARS = 64_000_000  # of a file that is read whole
PHASES = ("execute", "strategize", "sampling")
PLANNED = "The steps are those of the script."


@dataclass(frozen=True, kw_only=True)
class ScriptedReply:
    """One answer as a script states it."""

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any] | str], ...] = ()  # name, arguments (or raw text)
    stop: StopReason | None = None  # None: follows from whether there are calls


Answering = Callable[[ModelRequest], ScriptedReply]


@dataclass(frozen=True, kw_only=True)
class Script:
    """Replies by phase; without any for strategize, one finish call stands for it."""

    execute: tuple[ScriptedReply, ...]
    strategize: tuple[ScriptedReply, ...] = (
        ScriptedReply(calls=(("finish", {"summary": PLANNED}),)),
    )
    sampling: tuple[ScriptedReply, ...] = ()  # to MCP servers that are let ask


@dataclass(kw_only=True)
class ScriptedModel:
    """Answers from a script, or from a function of the request."""

    name: str = "scripted:inline"
    script: Script | None = None
    answering: Answering | None = None
    asked: int = field(default=0, init=False)  # requests so far

    @property
    def facts(self) -> ModelFacts:
        """A scripted model costs nothing and has no window."""
        return ModelFacts(name=self.name, usd_per_million_input=0.0, usd_per_million_output=0.0)

    async def prepare(self) -> ModelFacts:
        """There is nothing to look up."""
        return self.facts

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Return the next reply. Raises ModelFailed when the script has come to its end."""
        self.asked += 1
        reply = self.answering(request) if self.answering else self._next(request)
        if on_text and reply.text:
            on_text(reply.text)
        return scripted(reply, turn=request.turn, model=self.name, request=request)

    async def close(self) -> None:
        """Nothing is held."""

    def _next(self, request: ModelRequest) -> ScriptedReply:
        script = self.script or Script(execute=())
        others = {"strategize": script.strategize, "sampling": script.sampling}
        replies = others.get(request.purpose, script.execute)
        turn = request.turn
        if turn >= len(replies):
            count = f"{len(replies)} {'reply' if len(replies) == 1 else 'replies'}"
            raise ModelFailed(
                f"the script of {self.name} has {count} for this phase and was asked for one more",
                hint="a script must end with a call of finish; with a second one where its work"
                " changes nothing, which is asked back once",
            )
        return replies[turn]


def scripted(reply: ScriptedReply, *, turn: int, model: str, request: ModelRequest) -> ModelReply:
    """Return a scripted reply as a model would give it, call ids and estimated usage included."""
    calls = tuple(
        RequestedCall(
            id=f"scripted-{turn}-{index}",
            name=name,
            arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
        )
        for index, (name, arguments) in enumerate(reply.calls)
    )
    message = Message(speaker=Speaker.ASSISTANT, text=reply.text, calls=calls)
    stop = reply.stop or (StopReason.CALLS if calls else StopReason.DONE)
    usage = estimated_usage(request, message)
    free = Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        is_estimated=True,
        usd=0.0,
    )
    return ModelReply(message=message, usage=free, stop=stop, model=model)


def load_script(path: Path) -> Script:
    """Read a script from YAML or JSON. Raises UsageError with the place of what does not fit.

    The file holds `execute` and may hold `strategize`: lists of replies, each with `text` and
    `calls` (`name`, `arguments`), or `finish: SUMMARY`; `sampling` lists answers to MCP servers.
    `note` is for people.
    """
    text = _text(path)
    data = _parsed(path, text)
    try:
        return _script(data)
    except Fault as fault:
        raise _located(path, text, fault) from fault


def _script(data: Any) -> Script:
    if not isinstance(data, Mapping):
        raise Fault((), "a script is a mapping with `execute`")
    check_keys(data, (), ("note", *PHASES))
    said = {name: _replies(name, data[name]) for name in PHASES if name in data}
    if "execute" not in said:
        said["execute"] = _replies("execute", None)
    return Script(**said)


def _text(path: Path) -> str:
    try:
        with (
            plain_file(path, follows=True) as (descriptor, _),
            open(descriptor, encoding="utf-8", closefd=False) as file,
        ):
            text = file.read(SCRIPT_CHARS + 1)
    except NotPlain as error:
        raise UsageError(
            f"the script {path} is no plain file",
            hint="write it to one: it is read each time that the plan goes on",
        ) from error
    except OSError as error:
        raise UsageError(f"the script {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the script {path} cannot be read: it is not UTF-8") from error
    if len(text) > SCRIPT_CHARS:
        raise UsageError(
            f"the script {path} is longer than {SCRIPT_CHARS:,} characters",
            hint="take replies out of it",
        )
    return text


def _parsed(path: Path, text: str) -> Any:
    with suppress(ValueError):
        return loaded(text)  # a hundred times as fast, and all that programs write
    from ruamel.yaml import YAML  # noqa: PLC0415 - only a script that is no JSON needs it
    from ruamel.yaml.error import MarkedYAMLError  # noqa: PLC0415 - likewise

    try:
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise UsageError(f"{path}{where}: {error.problem or 'no valid YAML'}") from error
    except RecursionError as error:
        raise UsageError(f"the script {path} cannot be read: {TOO_DEEP}") from error


def _located(path: Path, text: str, fault: Fault) -> UsageError:
    """Return the error with line and column, where a stricter reader takes the file too."""
    try:
        document = parse_yaml(text, name=str(path))
    except UsageError:  # it has anchors, or is very large
        return UsageError(f"{path}: {fault.message}", hint=fault.hint)
    return document.refused(fault)


def _replies(phase: str, value: Any) -> tuple[ScriptedReply, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise Fault((phase,), "must be a list of at least one reply")
    return tuple(_reply((phase, index), entry) for index, entry in enumerate(value))


def _reply(place: Place, entry: Any) -> ScriptedReply:
    if not isinstance(entry, Mapping):
        raise Fault(place, "a reply is a mapping with `text`, `calls` or `finish`")
    check_keys(entry, place, ("calls", "finish", "text"))
    listed = enumerate(entry.get("calls") or ())
    calls = [_call((*place, "calls", index), call) for index, call in listed]
    if "finish" in entry:
        calls.append(("finish", {"summary": str(entry["finish"])}))
    return ScriptedReply(text=str(entry.get("text") or ""), calls=tuple(calls))


def _call(place: Place, call: Any) -> tuple[str, Mapping[str, Any] | str]:
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise Fault(place, "a call is a mapping with `name` and `arguments`")
    check_keys(call, place, ("arguments", "name"))
    arguments = call.get("arguments", {})
    if not isinstance(arguments, Mapping | str):
        raise Fault((*place, "arguments"), "`arguments` is a mapping")
    return call["name"], arguments if isinstance(arguments, str) else dict(arguments)


__all__ = [
    "Answering",
    "Script",
    "ScriptedModel",
    "ScriptedReply",
    "load_script",
    "scripted",
]
