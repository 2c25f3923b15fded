"""Progress while it happens, for programs: one line of JSON an event."""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import click

from patchyard.cli.encoding import portable
from patchyard.cli.outcome import heard
from patchyard.domain.body import Body
from patchyard.domain.checkpoint import CheckpointMade
from patchyard.domain.codec import to_json
from patchyard.domain.events import Event


@dataclass(frozen=True, kw_only=True)
class JsonLines:
    """Prints one line of JSON for each event of one plan, on standard output."""

    plan_id: str

    def __call__(self, event: Event, *, at: float | None = None) -> None:
        """Print `event`; `at` is when it was recorded, now where it just was."""
        if isinstance(event, CheckpointMade):  # a list of files as long as the tree is wide
            event = replace(event, manifest=Body(digest=event.manifest.digest))
        self._print(type(event).__name__, time.time() if at is None else at, to_json(event))

    def output(self, stream: str, text: str) -> None:
        """Print what a running command just printed."""
        self._print("Output", time.time(), {"stream": stream, "text": text})

    def _print(self, name: str, at: float, body: Mapping[str, Any]) -> None:
        line = {"event": name, "at": at, "plan_id": self.plan_id, **body}
        with heard(sys.stdout):
            click.echo(json.dumps(portable(line)))


__all__ = ["JsonLines"]
