"""The line that moves while a plan is worked on: phase, step, what it waits for, tokens, spend."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from patchyard.cli.outcome import visible
from patchyard.cli.progress import SpokenLines
from patchyard.domain.budget import PlanLimits
from patchyard.domain.events import (
    EnvironmentStarted,
    Event,
    Moved,
    PlanCreated,
    ToolCallRequested,
    ToolCallSettled,
    TurnRequested,
    TurnTaken,
    Validated,
)

ECHOED = 3  # columns left free: a terminal echoes ^C there, and must not wrap the line
REFRESH_HZ = 8


@dataclass(kw_only=True)
class Pulse:
    """What the line says now. Built from events alone."""

    limits: PlanLimits = field(default_factory=PlanLimits)
    phase: str = ""
    step: int = 0
    waiting: str = "the base"
    since: float = field(default_factory=time.monotonic)
    tokens: int = 0
    said: int = 0  # characters of the answer that is coming in
    usd: float = 0.0
    is_priced: bool = True

    def take(self, event: Event) -> None:
        """Take one event in."""
        waiting = _waiting(event)
        if isinstance(event, PlanCreated):
            self.limits = event.spec.limits
        elif isinstance(event, Moved):
            self.phase = str(event.phase)
        elif isinstance(event, TurnTaken):
            self.step += 1
            self.tokens += event.input_tokens + event.output_tokens
            self.usd += event.usd or 0.0
            self.is_priced = self.is_priced and (event.usd is not None or not event.asked_model)
        if waiting:
            self.said = 0
            self.waiting, self.since = waiting, time.monotonic()

    def wait(self, words: str) -> None:
        """Say what a model is waited for."""
        if words != self.waiting:
            self.waiting, self.since = words, time.monotonic()

    def hear(self, text: str) -> None:
        """Count what a model says while it says it."""
        self.said += len(text)

    def line(self) -> str:
        """Return the line: `execute · step 4 · waits for the model, 12 s · 2,057 tokens · …`."""
        waited = int(time.monotonic() - self.since)
        parts = [self.phase or "begin", f"step {self.step}{_of(self.limits.steps)}"]
        parts.append(f"waits for {self.waiting}, {waited} s")
        if self.said:
            parts.append(f"{self.said:,} characters so far")
        if self.tokens:
            parts.append(f"{self.tokens:,} tokens{_of(self.limits.tokens)}")
        if self.is_priced and self.usd:
            parts.append(f"{self.usd:.4f}{_of(self.limits.usd)} USD")
        return " · ".join(parts)


def _of(limit: float | None) -> str:
    return "" if limit is None else f" of {limit:g}"


def _waiting(event: Event) -> str:
    if isinstance(event, TurnRequested):
        return "the actor"
    if isinstance(event, ToolCallRequested):
        return f"{event.name} in {event.kind or 'the engine'}"
    if isinstance(event, EnvironmentStarted):
        return f"the {event.purpose} in {event.handle.kind}"
    if isinstance(event, (ToolCallSettled, Validated)):
        return "the next step"
    return ""


@contextmanager
def moving(pulse: Pulse, spoken: SpokenLines) -> Iterator[None]:
    """Show the moving line below the spoken ones, on a terminal's standard error."""
    console = Console(stderr=True, highlight=False)
    spinner = Spinner("dots")

    def frame() -> Text:
        turning = spinner.render(console.get_time())
        said = (visible(pulse.line()), "dim")
        line = Text.assemble(str(turning), " ", said, no_wrap=True)
        line.truncate(max(console.width - ECHOED, 1), overflow="ellipsis")
        return line

    def write(text: str) -> None:
        console.print(Text.from_ansi(text), soft_wrap=True)

    line = Live(
        get_renderable=frame, console=console, refresh_per_second=REFRESH_HZ, transient=True
    )

    @contextmanager
    def hushed() -> Iterator[None]:
        line.stop()
        yield
        line.start()

    with line:
        spoken.write, spoken.hush = write, hushed
        yield


__all__ = ["ECHOED", "REFRESH_HZ", "Pulse", "moving"]
