"""What waits for one subscriber of a bus: bounded, the oldest goes first and is counted."""

import asyncio
import json
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from patchyard.contracts.bus import MESSAGE_BYTES, QUEUED, Message
from patchyard.domain.errors import UsageError


class Mailbox:
    """contracts.bus.Subscription over a bounded row of messages."""

    def __init__(self, topics: Collection[str], *, size: int = QUEUED) -> None:
        self._topics = frozenset(topics)
        self._waiting: deque[Message] = deque()
        self._size = size
        self._missed = 0
        self._has_some = asyncio.Event()

    def put(self, message: Message) -> None:
        """Let a message wait, if it is of a topic that is listened to."""
        if self._topics and message.topic not in self._topics:
            return
        if len(self._waiting) >= self._size:
            lost = 1 + self._waiting.popleft().missed
            if self._waiting:
                self._waiting[0] = replace(self._waiting[0], missed=self._waiting[0].missed + lost)
            else:
                self._missed += lost
        self._waiting.append(replace(message, missed=self._missed) if self._missed else message)
        self._missed = 0
        self._has_some.set()

    def miss(self, count: int) -> None:
        """Count messages that nobody will hear; the next one that comes says so."""
        self._missed += count

    async def next(self) -> Message:
        """See contracts.bus.Subscription."""
        while not self._waiting:
            self._has_some.clear()
            await self._has_some.wait()
        return self._waiting.popleft()


def encoded(topic: str, body: Mapping[str, Any]) -> str:
    """Return a body as JSON. Raises UsageError for one that is too large."""
    text = json.dumps(body, separators=(",", ":"))
    if len(text.encode()) > MESSAGE_BYTES:
        raise UsageError(
            f"a message of {topic} has {len(text.encode()):,} bytes, at most {MESSAGE_BYTES:,}",
            hint="put it into the journal, and publish where it is",
        )
    return text


__all__ = ["Mailbox", "encoded"]
