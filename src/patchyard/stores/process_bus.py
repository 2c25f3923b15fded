"""The bus of one process: for an engine that is alone, and for tests."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from patchyard.contracts.bus import QUEUED, Message, Subscription
from patchyard.contracts.clock import Clock
from patchyard.stores.mailboxes import Mailbox, encoded


class ProcessBus:
    """contracts.bus.Bus between the tasks of one event loop."""

    def __init__(self, clock: Clock, *, size: int = QUEUED) -> None:
        self._clock = clock
        self._size = size
        self._open: list[Mailbox] = []

    async def publish(self, topic: str, body: Mapping[str, Any], *, sender: str = "") -> None:
        """See contracts.bus.Bus."""
        plain = json.loads(encoded(topic, body))
        for each in self._open:
            each.put(Message(topic=topic, body=plain, sender=sender, at=self._clock.now()))

    @asynccontextmanager
    async def subscribe(self, *topics: str) -> AsyncIterator[Subscription]:
        """See contracts.bus.Bus."""
        own = Mailbox(topics, size=self._size)
        self._open.append(own)
        try:
            yield own
        finally:
            self._open.remove(own)


__all__ = ["ProcessBus"]
