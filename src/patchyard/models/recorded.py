"""Writes a model's conversation to a file, and plays such a file back, strictly.

One JSON object a line: a head, then each request (what is new in it) with its reply or its error.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from patchyard.contracts.model import Model, OnText
from patchyard.domain.errors import ModelFailed, ModelUnavailable, UsageError
from patchyard.domain.messages import ModelFacts, ModelReply, ModelRequest
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

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Head:
    """What a recording says of itself."""

    model: str  # "provider:model"
    plan: str  # id of the plan it was made by; that plan alone goes on with the file
    environment: str  # kind it was made in; playing back wants one at least as strong
    context_tokens: int | None


class RecordingModel:
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
    ) -> None:
        self._model = model
        self._path = path
        self._environment = environment
        self._plan = plan
        self._places = places
        self._canon = Canon(self._places)
        self._before_us = _mended(path, plan)
        self._file = _opened(path)
        self._before: list[Any] = []
        self._tools: Any = None
        self._has_head = self._before_us is not None

    @property
    def facts(self) -> ModelFacts:
        """The model's own facts."""
        return self._model.facts

    async def prepare(self) -> ModelFacts:
        """Prepare the model and write the head, once."""
        facts = await self._model.prepare()
        if self._before_us is not None and self._before_us.model != facts.name:
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
            step["error"] = {"code": error.code, "message": self._places.take_out(error.message)}
            step["error"]["retryable"] = error.retryable
            self._write(step)
            raise
        self._write({**step, "reply": reply_data(reply, self._places)})
        return reply

    async def close(self) -> None:
        """Close the file and the model."""
        self._file.close()
        await self._model.close()

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
            usd_per_million_input=0.0,
            usd_per_million_output=0.0,
        )

    async def prepare(self) -> ModelFacts:
        """There is nobody to ask."""
        return self.facts

    async def complete(self, request: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        """Return the recorded reply. Raises ModelFailed showing the first difference."""
        step = self._step(self._canon.request(request))
        if "error" in step:
            error = step["error"]
            raise ModelFailed(str(error["message"]), retryable=bool(error["retryable"]))
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
                hint="record it again",
            )
        step = self._steps[self._next]
        if step["digest"] != asked.digest:
            raise ModelFailed(
                f"request {self._next + 1} differs from {self._path}: "
                f"{first_difference(step['request'], asked.data)}",
                hint="play it back on the same base and version, or record it again",
                details={"kind": "recording_differs", "step": self._next + 1},
            )
        self._next += 1
        return step

    def _place_of(self, digest: str) -> int:
        """Return where to begin: at the start, or, after a crash, where this request stands."""
        digests = [step["digest"] for step in self._steps]
        return digests.index(digest) if digest in digests else 0


def _opened(path: Path) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    os.fchmod(handle, 0o600)
    return os.fdopen(handle, "wb")


def _mended(path: Path, plan: str) -> Head | None:
    """Return the head of a recording that is gone on with; None where there is nothing yet.

    Raises UsageError when the file is anything but this plan's recording; it is left alone then.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    if not content:
        return None
    whole = content[: content.rfind(b"\n") + 1]
    try:
        head = _head(path, whole.splitlines())
    except UsageError:
        head = None
    if head is None or head.plan != plan:
        raise UsageError(f"{path} exists already", hint="name another file, or delete it first")
    if len(whole) < len(content):
        os.truncate(path, len(whole))
    return head


def _loaded(path: Path) -> tuple[Head, list[dict[str, Any]]]:
    try:
        lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise UsageError(f"the recording {path} cannot be read: {error.strerror}") from error
    head = _head(path, lines)
    try:
        steps = _whole([json.loads(line) for line in lines[1:]])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is a damaged recording: {error!r}") from error
    return head, _answered_last(steps)


def _head(path: Path, lines: Sequence[bytes]) -> Head:
    try:
        head = json.loads(lines[0]) if lines else {}
    except ValueError as error:
        raise UsageError(f"{path} is no recording: {error}") from error
    if not isinstance(head, dict) or head.get("patchyard_recording") != FORMAT:
        raise UsageError(f"{path} is no recording of this format ({FORMAT})")
    return Head(
        model=str(head.get("model", "")),
        plan=str(head.get("plan", "")),
        environment=str(head.get("environment", "")),
        context_tokens=head.get("context_tokens"),
    )


def _answered_last(steps: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what was asked again: after a crash or an error only the later answer counts."""
    following = [step["digest"] for step in steps[1:]] + [None]
    pairs = zip(steps, following, strict=False)
    return [step for step, after in pairs if step["digest"] != after]


def _whole(lines: Sequence[Any]) -> list[dict[str, Any]]:
    """Put each request together from what is new in it; the hashes are taken anew."""
    steps: list[dict[str, Any]] = []
    messages: list[Any] = []
    digests: list[bytes] = []
    tools: Any = []
    for line in lines:
        new = dict(line["request"])
        tools = new.get("tools", tools)
        kept = new.pop("kept")
        messages = [*messages[:kept], *new["messages"]]
        digests = [*digests[:kept], *map(message_digest, new["messages"])]
        request = {**new, "tools": tools, "messages": messages}
        steps.append({**line, "request": request, "digest": whole_digest(request, digests)})
    return steps


__all__ = ["FORMAT", "Head", "RecordedModel", "RecordingModel"]
