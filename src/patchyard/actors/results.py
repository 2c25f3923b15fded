"""Results of calls as they enter a conversation, and what they tell about the progress."""

import re
from dataclasses import replace

from patchyard.actors.conversation import WORTH_BYTES, Entry, entry
from patchyard.actors.reading import ReadCall
from patchyard.contracts.actor import Answered
from patchyard.domain.mcp import PREFIX
from patchyard.domain.messages import Image, Message, Speaker
from patchyard.domain.tooling import READ_OUTPUT, Effect

_DURATION = re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|seconds?)\b")
MOST_BYTES = 4  # of a character
BINARY = "BINARY_FILE"  # what a picture is that was read as a file
NO_RESULT = "failed (UNKNOWN_ERROR): no result came of this call"
LOOKING = frozenset(
    {
        *("cat", "cd", "diff", "du", "echo", "file", "find", "grep", "head", "less", "ls", "more"),
        *("nl", "pwd", "rg", "sort", "stat", "tail", "test", "tree", "true", "type", "uname"),
        *("uniq", "wc", "which"),
    }
)
LOOKING_GIT = frozenset({"status", "log", "diff", "show", "blame", "grep", "ls-files"})


def answer_entry(
    call: ReadCall,
    answer: Answered | None,
    *,
    local: str,
    limit: int,
    images: tuple[Image, ...] = (),
) -> Entry:
    """Return the message that answers a call, and the line that may stand for it later.

    A text of more than `limit` characters would leave a small window no room for anything else.
    `images` are those of the answer that the model can see.
    """
    text = local or (fitted(call, answer, limit) if answer else NO_RESULT)
    if images and answer is not None and answer.result.error == BINARY:
        text = f"{answer.result.message}: an image, shown to you here"
    if call.note:
        text = f"(note: {call.note})\n{text}"
    message = Message(speaker=Speaker.TOOL, text=text, answers=call.ref, images=images)
    is_short = len(text) < WORTH_BYTES // MOST_BYTES and not images  # no line saves that
    if answer is None or local or is_short:
        return entry(message)
    result = answer.result
    outcome = "done" if result.success or images else f"failed ({result.error})"
    way = "read it again"
    if images:
        line = f"[{label(call)}: {outcome}; an image left out, {way} to see it]"
        return entry(message, shorter=replace(message, text=line, images=()))
    if call.name != READ_OUTPUT:
        way = f'{READ_OUTPUT}(call_id="{result.call_id}") shows it again'
    line = f"[{label(call)}: {outcome}; {len(answer.text):,} characters left out, {way}]"
    return entry(message, shorter=Message(speaker=Speaker.TOOL, text=line, answers=call.ref))


def fitted(call: ReadCall, answer: Answered, limit: int) -> str:
    """Return a result's text within about `limit` characters, and how to see the rest."""
    text = answer.text
    if len(text) <= limit:
        return text
    if call.name == READ_OUTPUT:  # its first line tells where a whole page would go on
        page = text.partition("\n")[2]
        offset = (call.arguments or {}).get("offset")
        following = (offset if isinstance(offset, int) else 0) + limit
        return f"[part of the output; go on with offset={following}]\n{page[:limit]}"
    start, end = limit // 2, len(text) - limit // 2
    again = f'{READ_OUTPUT}(call_id="{answer.result.call_id}", offset={start})'
    notice = (
        f"[... {end - start:,} of {len(text):,} characters left out, for they do not fit your "
        f"context; ask for less at once, or {again} shows them ...]"
    )
    return f"{text[:start]}\n{notice}\n{text[end:]}"


def signature(call: ReadCall, answer: Answered | None, *, local: str) -> tuple[object, ...]:
    """Return what a call asked for and what came of it; ids and durations left out."""
    text = local or (answer.text if answer else "")
    if answer is not None:
        text = _DURATION.sub("", text.replace(answer.result.call_id, ""))
    return call.name, call.arguments, text


def label(call: ReadCall) -> str:
    """Return a call in a few words: its name and what it is about."""
    arguments = call.arguments or {}
    subject = next(
        (str(arguments[k]) for k in ("path", "command", "pattern", "query") if k in arguments), ""
    )
    words = " ".join(subject.split())
    return f"{call.name} {words if len(words) <= 80 else words[:77] + '...'}".strip()


def looks_like_change(call: ReadCall, effect: Effect) -> bool:
    """Whether a call that went well can have changed the workspace."""
    if effect is not Effect.RUN:
        return effect is Effect.WRITE
    if call.name.startswith(PREFIX):
        return True
    command = str((call.arguments or {}).get("command", ""))
    if ">" in command:
        return True
    return any(not _only_looks(part.split()) for part in re.split(r"[;&|\n]+", command))


def _only_looks(words: list[str]) -> bool:
    if not words:
        return True
    if words[0] == "git":
        return len(words) > 1 and words[1] in LOOKING_GIT
    return words[0] in LOOKING


__all__ = ["answer_entry", "fitted", "label", "looks_like_change", "signature"]
