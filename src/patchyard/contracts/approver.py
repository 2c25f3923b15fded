"""The seam to whoever can be asked at once whether a plan may go on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from patchyard.domain.elicitation import Question
from patchyard.domain.steering import ApprovalAsked


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What somebody said."""

    is_approved: bool
    by: str  # how they were asked, such as "terminal"
    reason: str = ""  # of a refusal, told to the actor


class Approver(Protocol):
    """Somebody who may be there."""

    async def ask(self, asked: ApprovalAsked) -> Verdict | None:
        """Ask and return the verdict; None where nobody can be asked. Cancelling ends the wait."""
        ...


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What somebody answered to a server's question."""

    content: Mapping[str, Any] | None  # by field; None: they declined
    by: str  # how they were asked, such as "terminal"


@runtime_checkable
class Answering(Protocol):
    """Extension: somebody who can fill in what a server asks for."""

    async def answer(self, question: Question) -> Reply | None:
        """Put the question; None where nobody can be asked. Cancelling ends the wait."""
        ...


class Nobody:
    """The approver of a plan that runs without anybody to ask."""

    async def ask(self, asked: ApprovalAsked) -> Verdict | None:
        """Answer that nobody is there."""


__all__ = ["Answering", "Approver", "Nobody", "Reply", "Verdict"]
