"""Turns a model's reply into calls that can be made, or into what the model is told instead."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from patchyard.clients.written_calls import THOUGHT, find_calls, parse_arguments
from patchyard.domain.codec import in_full
from patchyard.domain.meanings import restored
from patchyard.domain.messages import (
    Message,
    ModelReply,
    RequestedCall,
    StopReason,
    Thoughts,
    Usage,
)
from patchyard.domain.messages import Speaker as Says
from patchyard.domain.nearness import near_names

# What other systems call our tools; a model that was trained on them is told ours.
ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "delete_file": ("delete", "remove", "remove_file", "rm", "unlink"),
    "execute_command": (
        *("bash", "cmd", "exec", "execute", "run", "run_bash", "run_command", "run_shell"),
        *("run_terminal_cmd", "shell", "terminal"),
    ),
    "finish": ("attempt_completion", "complete", "done", "end", "exit", "stop", "submit"),
    "grep_search": ("grep", "rg", "ripgrep", "search", "search_code", "search_content"),
    "list_directory": ("dir", "list_dir", "list_files", "ls", "tree"),
    "read_file": ("cat", "get_file", "open", "open_file", "read", "view", "view_file"),
    "search_files": ("file_search", "find", "find_files", "glob"),
    "search_replace": (
        *("apply_diff", "apply_patch", "edit", "edit_file", "replace", "replace_in_file"),
        *("str_replace", "str_replace_editor", "str_replace_based_edit_tool"),
    ),
    "write_file": ("create", "create_file", "new_file", "save", "save_file", "write"),
}
KEPT_ANSWER = 20_000  # characters of text kept of one reply
KEPT_NAME = 64  # characters kept of the name of a tool that there is not
CALLS_AT_ONCE = 16  # carried out of one reply; that there were more is told back
SAID_NOTHING = "(nothing)"  # some servers refuse a turn without any content
COPIED = (
    'the text ends with "[... characters left out]", which stands in for a longer text of this '
    "conversation; nothing was done. Write the whole text"
)
_CUT = re.compile(r"\[\.\.\. [\d,]+ characters left out\]\s*\Z")


@dataclass(frozen=True, kw_only=True)
class ReadCall:
    """One call of a reply: fit to be made, or with the problem that is told back."""

    ref: str  # unique within the session
    name: str
    arguments: Mapping[str, Any] | None  # of a tool that is not offered: only to be shown
    note: str = ""  # what was mended
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A reply as it enters the conversation, and the calls in it."""

    message: Message
    calls: tuple[ReadCall, ...]


def read(reply: ModelReply, *, names: Sequence[str], turn: int) -> Reading:
    """Read one reply. `names` are the tools there are, `turn` makes call ids unique."""
    text = reply.message.text
    asked = [(c.name, c.arguments, "") for c in reply.message.calls]
    if not asked:
        asked = [
            (name, arguments, "the call stood in the text; call the tool itself next time")
            for name, arguments in find_calls(text, names)
        ]
    calls = tuple(
        _read_call(f"c{turn}-{index}", name, arguments, note=note, names=names)
        for index, (name, arguments, note) in enumerate(asked[:CALLS_AT_ONCE])
    )
    if len(asked) > CALLS_AT_ONCE:
        left = f"only the first {CALLS_AT_ONCE} of your {len(asked)} calls are made"
        calls = (
            *calls[:-1],
            replace(calls[-1], note="; ".join(filter(None, (calls[-1].note, left)))),
        )
    message = Message(
        speaker=Says.ASSISTANT,
        text=text if text.strip() or calls else SAID_NOTHING,
        calls=tuple(RequestedCall(id=c.ref, name=c.name, arguments=_repeated(c)) for c in calls),
        thoughts=reply.message.thoughts,
    )
    return Reading(message=message, calls=calls)


def clipped(reply: ModelReply) -> ModelReply:
    """Return the reply with what is kept of its text: no thoughts, and not too much."""
    text = THOUGHT.sub("", reply.message.text)
    if len(text) > KEPT_ANSWER:
        left = len(text) - KEPT_ANSWER
        text = f"{text[:KEPT_ANSWER]}\n[... {left:,} characters left out]"
    return replace(reply, message=replace(reply.message, text=text))


def to_body(reply: ModelReply) -> dict[str, Any]:
    """Return a reply as JSON for the journal."""
    body = {
        "text": reply.message.text,
        "calls": [[c.id, c.name, c.arguments] for c in reply.message.calls],
        "stop": str(reply.stop),
        "model": reply.model,
    }
    thoughts = reply.message.thoughts
    return body if thoughts is None else {**body, "thoughts": in_full(thoughts)}


def from_body(body: Mapping[str, Any]) -> ModelReply:
    """Return the reply that `to_body` made this of, its usage left out."""
    calls = tuple(
        RequestedCall(id=id_, name=name, arguments=arguments)
        for id_, name, arguments in body["calls"]
    )
    return ModelReply(
        message=Message(
            speaker=Says.ASSISTANT,
            text=body["text"],
            calls=calls,
            thoughts=restored(Thoughts, body["thoughts"]) if "thoughts" in body else None,
        ),
        usage=Usage(),
        stop=StopReason(body["stop"]),
        model=body["model"],
    )


def nearest(name: str, names: Sequence[str]) -> str:
    """Return what a model is told that asked for a tool there is not."""
    meant = [tool for tool, others in ELSEWHERE.items() if _plain(name) in others]
    near = [tool for tool in meant if tool in names]
    near = near or near_names(name, names)
    guess = f" Did you mean {near[0]}?" if near else ""
    return f"there is no tool {name!r}.{guess} There are: {', '.join(sorted(names))}"


def _repeated(call: ReadCall) -> str:
    """Return the arguments as the conversation keeps them: nothing of a call that is not made."""
    return json.dumps({} if call.problem else call.arguments or {})


def _read_call(ref: str, name: str, arguments: str, *, note: str, names: Sequence[str]) -> ReadCall:
    known, parsed = _known_name(name, names), parse_arguments(arguments)
    if known is None:
        return ReadCall(
            ref=ref,
            name=name[:KEPT_NAME] or "unnamed",
            arguments=parsed.arguments,
            problem=nearest(name[:KEPT_NAME], names),
        )
    if any(isinstance(v, str) and _CUT.search(v) for v in (parsed.arguments or {}).values()):
        return ReadCall(ref=ref, name=known, arguments=None, problem=COPIED)
    notes = "; ".join(part for part in (note, parsed.mended) if part)
    return ReadCall(
        ref=ref, name=known, arguments=parsed.arguments, note=notes, problem=parsed.problem
    )


def _known_name(name: str, names: Sequence[str]) -> str | None:
    if name in names:
        return name
    bare = name.strip().removeprefix("functions.").removeprefix("tools.")
    return next((known for known in (bare, _plain(name)) if known in names), None)


def _plain(name: str) -> str:
    """Return a name as ours are written: `readFile` and `read-file` are `read_file`."""
    bare = name.strip().removeprefix("functions.").removeprefix("tools.")
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in bare).replace("-", "_")
    return snake.strip("_")


__all__ = ["ELSEWHERE", "ReadCall", "Reading", "clipped", "from_body", "nearest", "read", "to_body"]
