"""Who wants to see the work while it happens."""

from collections.abc import Callable
from dataclasses import dataclass

from patchyard.contracts.environment import OnOutput
from patchyard.contracts.model import OnText, OnWait
from patchyard.domain.events import Event


@dataclass(frozen=True, kw_only=True)
class Watching:
    """Called while the work goes on. None of them may raise or wait."""

    on_event: Callable[[Event], None] | None = None  # each event, once it is on disk
    on_output: OnOutput | None = None  # what a command prints
    on_text: OnText | None = None  # what a model says
    on_wait: OnWait | None = None  # what a model is waited for: loading, slowing down
    on_terms: Callable[[str], None] | None = None  # which was chosen, and what bounds its cost


__all__ = ["Watching"]
