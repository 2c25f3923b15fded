"""Writes a model's conversation to a file, and plays such a file back, strictly.

One JSON object a line: a head, then each request (what is new in it) with its reply or its error.
"""

import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from patchyard.contracts.model import Model, OnText
from patchyard.domain.errors import (
    ModelFailed,
    ModelUnavailable,
    PatchyardError,
    UsageError,
)
from patchyard.domain.messages import ModelFacts, ModelReply, ModelRequest
from patchyard.models.answering import whole_number
from patchyard.models.transcript import (
    Canon,
    Canonical,
    Placeholders,
    first_difference,
    message_digest,
    reply_data,
    reply_from,
    whole_digest,
)
from patchyard.models.wrapping import WrappedModel

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Head:
    """What a recording says of itself."""

    model: str  # "provider:model"
    plan: str  # id of the plan it was made by; that plan alone goes on with the file
    environment: str  # kind it was made in; playing back wants one at least as strong
    context_tokens: int | None
    has_images: bool = False


class RecordingModel(WrappedModel):
    """A model whose every request and reply is written down, secrets hidden, readable by us only.

    An existing file is never overwritten. The plan that made it goes on with it, after the last
    whole line.
    """

    def __init__(
        self,
        model: Model,
        path: Path,
        *,
        places: Placeholders,
        environment: str,
        plan: str,
        chain: Sequence[str] = (),
    ) -> None:
        super().__init__(model)
        self._chain = frozenset(chain)  # names of all models that may answer; the file is of one
        self._path = path
        self._environment = environment
        self._plan = plan
        self._places = places
        self._canon = Canon(self._places)
        self._file, self._before_us = _opened(path, plan)
        self._before: list[Any] = []
        self._tools: Any = None
        self._has_head = self._before_us is not None

    async def prepare(self) -> ModelFacts:
        """Prepare the model and write the head, once."""
        facts = await self._model.prepare()
        allowed = {facts.name, *self._chain}
        if self._before_us is not None and self._before_us.model not in allowed:
            raise UsageError(
                f"{self._path} is a recording of {self._before_us.model}, not of {facts.name}",
                hint="name another file",
            )
        if not self._has_head:
            self._has_head = True
            self._write(
                {
                    "patchyard_recording": FORMAT,
                    "model": facts.name,
                    "plan": self._plan,
                    "environment": self._environment,
                    "context_tokens": facts.context_tokens,
                    "has_images": facts.has_images,
                }
            )
        return facts

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Ask the model and write both sides down, an error too."""
        asked = self._canon.request(request)
        step: dict[str, Any] = {"hash": asked.digest, "request": self._new_in(asked.data)}
        try:
            reply = await self._model.complete(request, on_text=on_text)
        except (ModelFailed, ModelUnavailable) as error:
            self._write({**step, "error": self._failure(error)})
            raise
        self._write({**step, "reply": reply_data(reply, self._places)})
        return reply

    async def close(self) -> None:
        """Close the file and the model."""
        self._file.close()
        await super().close()

    def _failure(self, error: PatchyardError) -> dict[str, Any]:
        return {
            "code": error.code,
            "message": self._places.take_out(error.message),
            "hint": self._places.take_out(error.hint),
            "kind": error.details.get("kind"),
            "retryable": error.retryable,
        }

    def _new_in(self, data: dict[str, Any]) -> dict[str, Any]:
        messages = data["messages"]
        same = 0
        while same < min(len(messages), len(self._before)) and (
            messages[same] == self._before[same]
        ):
            same += 1
        new = {**data, "kept": same, "messages": messages[same:]}
        if data["tools"] == self._tools:
            del new["tools"]
        self._before, self._tools = messages, data["tools"]
        return new

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n")
        self._file.flush()


class RecordedModel:
    """Plays a recording back. What is asked must be what was recorded, in the same order."""

    def __init__(self, path: Path, *, places: Placeholders | None = None) -> None:
        self._path = path
        self._places = places or Placeholders()
        self._canon = Canon(self._places)
        self.head, self._steps = _loaded(path)
        self._next = 0
        self._has_begun = False

    @property
    def facts(self) -> ModelFacts:
        """The window of the recorded model, so that room is made at the same places; no price."""
        return ModelFacts(
            name=f"recorded:{self._path.name}",
            context_tokens=self.head.context_tokens,
            has_images=self.head.has_images,
            usd_per_million_input=0.0,
            usd_per_million_output=0.0,
        )

    async def prepare(self) -> ModelFacts:
        """There is nobody to ask."""
        return self.facts

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Return the recorded reply, or raise the recorded error.

        Raises ModelFailed showing the first difference where something else is asked.
        """
        step = self._step(self._canon.request(request))
        if "error" in step:
            raise _failed_then(step["error"])
        reply = reply_from(step["reply"], self._places)
        if on_text and reply.message.text:
            on_text(reply.message.text)
        return reply

    async def close(self) -> None:
        """Nothing is held."""

    def _step(self, asked: Canonical) -> Mapping[str, Any]:
        if not self._has_begun:
            self._next = self._place_of(asked.digest)
            self._has_begun = True
        if self._next >= len(self._steps):
            raise ModelFailed(
                f"{self._path} holds {len(self._steps)} requests and was asked for one more",
                hint=_unfinished(self.head.plan),
            )
        step = self._steps[self._next]
        if step["digest"] != asked.digest:
            raise ModelFailed(
                f"request {self._next + 1} differs from {self._path}: "
                f"{first_difference(step['request'], asked.data)}",
                hint="play it back with the same task, base and version, or record it again",
                details={"kind": "recording_differs", "step": self._next + 1},
            )
        self._next += 1
        return step

    def _place_of(self, digest: str) -> int:
        """Return where to begin: at the start, or, after a crash, where this request stands."""
        digests = [step["digest"] for step in self._steps]
        return digests.index(digest) if digest in digests else 0


def _failed_then(error: Mapping[str, Any]) -> ModelFailed | ModelUnavailable:
    message, hint = str(error["message"]), str(error.get("hint", ""))
    details = {"kind": error["kind"]} if error.get("kind") else {}
    if error["code"] == ModelUnavailable.code:
        return ModelUnavailable(message, hint=hint, details=details)
    return ModelFailed(message, hint=hint, details=details, retryable=bool(error["retryable"]))


def _opened(path: Path, plan: str) -> tuple[BinaryIO, Head | None]:
    """Open a recording to be written; its head where it is this plan's and is gone on with.

    Raises UsageError when the file is anything else; it is left alone then.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    file = os.fdopen(handle, "wb")
    try:
        content = _content(path, handle)
        whole = content[: content.rfind(b"\n") + 1]
        head = _own_head(path, whole, plan) if content else None
        os.ftruncate(handle, len(whole))
        os.fchmod(handle, 0o600)
    except BaseException:
        file.close()
        raise
    return file, head


def _own_head(path: Path, whole: bytes, plan: str) -> Head:
    with suppress(UsageError):
        head = _head(path, whole.splitlines())
        if head.plan == plan:
            return head
    raise UsageError(f"{path} exists already", hint="name another file, or delete it first")


def _content(path: Path, handle: int) -> bytes:
    """Read an open file; a pipe or a device would be waited for, and is refused."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise UsageError(f"{path} is no ordinary file", hint="name another file")
    with os.fdopen(os.dup(handle), "rb") as file:
        return file.read()


def _loaded(path: Path) -> tuple[Head, list[dict[str, Any]]]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"the recording {path} cannot be read: {error.strerror}") from error
    try:
        content = _content(path, handle)
    except OSError as error:
        raise UsageError(f"the recording {path} cannot be read: {error.strerror}") from error
    finally:
        os.close(handle)
    lines = [line for line in content.splitlines() if line.strip()]
    head = _head(path, lines)
    talk = _Talk()
    for number, line in enumerate(lines[1:], start=2):
        try:
            talk.add(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if number == len(lines) and not content.endswith(b"\n"):
                raise UsageError(
                    f"{path} ends in the middle of line {number}: who recorded it was stopped",
                    hint=_unfinished(head.plan),
                ) from error
            raise UsageError(
                f"{path} is a damaged recording: line {number} is not what was written",
                hint="record it again",
            ) from error
    return head, _answered_last(talk.steps)


def _unfinished(plan: str) -> str:
    resumed = f"`agents plan resume {plan}` goes on with plan and recording" if plan else ""
    return "; or ".join(filter(None, (resumed, "record it again")))


def _head(path: Path, lines: Sequence[bytes]) -> Head:
    try:
        head = json.loads(lines[0]) if lines else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no recording: {error}") from error
    if not isinstance(head, dict) or head.get("patchyard_recording") != FORMAT:
        raise UsageError(f"{path} is no recording of this format ({FORMAT})")
    return Head(
        model=str(head.get("model", "")),
        plan=str(head.get("plan", "")),
        environment=str(head.get("environment", "")),
        context_tokens=whole_number(head.get("context_tokens")) or None,
        has_images=head.get("has_images") is True,
    )


def _answered_last(steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what was asked again: after a crash or an error only the later answer counts."""
    following = [step["digest"] for step in steps[1:]] + [None]
    pairs = zip(steps, following, strict=False)
    return [step for step, after in pairs if step["digest"] != after]


class _Talk:
    """Puts each request together from what is new in it; the hashes are taken anew."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self._messages: list[Any] = []
        self._digests: list[bytes] = []
        self._tools: Any = []

    def add(self, line: Mapping[str, Any]) -> None:
        """Take in a line. Raises ValueError, KeyError, TypeError, AttributeError if damaged."""
        new = dict(line["request"])
        self._tools = new.get("tools", self._tools)
        kept = new.pop("kept")
        self._messages = [*self._messages[:kept], *new["messages"]]
        self._digests = [*self._digests[:kept], *map(message_digest, new["messages"])]
        request = {**new, "tools": self._tools, "messages": self._messages}
        if "error" in line:
            _failed_then(line["error"])
        else:
            reply_from(line["reply"], Placeholders())
        digest = whole_digest(request, self._digests)
        self.steps.append({**line, "request": request, "digest": digest})


__all__ = ["FORMAT", "Head", "RecordedModel", "RecordingModel"]
