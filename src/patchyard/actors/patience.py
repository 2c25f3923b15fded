"""How long a model is set right before its work is ended with a reason."""

from dataclasses import dataclass, field

from patchyard.actors.repetition import Repetition, Verdict
from patchyard.domain.messages import ModelReply, StopReason

NUDGES = 3  # answers without a call, in a row
UNREADABLE = 3  # answers whose calls cannot be made, in a row
WARN_FAILURES = 8  # calls without a success, in a row
END_FAILURES = 16


@dataclass(kw_only=True)
class Patience:
    """Counts what goes wrong in a row; anything right begins anew."""

    repetition: Repetition = field(default_factory=Repetition)
    silent: int = 0
    unreadable: int = 0
    failures: int = 0

    def heard_calls(self, *, is_any_fit: bool) -> bool:
        """Take in an answer with calls; return whether to go on."""
        self.silent = 0
        self.unreadable = 0 if is_any_fit else self.unreadable + 1
        return self.unreadable <= UNREADABLE

    def heard_none(self) -> bool:
        """Take in an answer without a call; return whether the model is nudged."""
        self.silent += 1
        return self.silent <= NUDGES

    def heard_result(self, *, is_success: bool) -> None:
        """Take in what a call came to."""
        self.failures = 0 if is_success else self.failures + 1

    def verdict(self) -> tuple[Verdict, str]:
        """Return whether the last calls lead anywhere, and the reason if not."""
        if self.failures >= END_FAILURES:
            return Verdict.END, f"{self.failures} calls in a row failed"
        verdict, reason = self.repetition.verdict()
        if verdict is Verdict.FINE and self.failures == WARN_FAILURES:
            return Verdict.WARN, f"{self.failures} calls in a row failed"
        return verdict, f"it repeated itself: {reason}" if reason else ""

    def renew(self) -> None:
        """Begin anew, after somebody gave a new word."""
        self.repetition.forget()
        self.silent = self.unreadable = self.failures = 0


def nudge(reply: ModelReply) -> str:
    """Return what a model is told whose answer held no call."""
    if reply.stop is StopReason.LENGTH:
        return (
            "Your answer was cut because it was too long, and held no whole call. Write less: "
            "one short call at a time."
        )
    if not reply.message.text.strip():
        return "Your answer was empty. Call a tool, or call finish when the task is done."
    return (
        "Your answer held no call, so nothing happened. Do not describe or apologise: call a "
        "tool, or call finish when the task is done or cannot be done."
    )


def silence(reply: ModelReply) -> str:
    """Return why the work ends after too many answers without a call."""
    times = f"{NUDGES + 1} times in a row"
    if reply.stop is StopReason.LENGTH:
        return f"the model's answers were cut for their length {times}"
    if not reply.message.text.strip():
        return f"the model answered with nothing {times}"
    first = reply.message.text.strip().splitlines()[0][:200]
    return f"the model called no tool {times}; it said: {first}"


__all__ = [
    "END_FAILURES",
    "NUDGES",
    "UNREADABLE",
    "WARN_FAILURES",
    "Patience",
    "nudge",
    "silence",
]
