"""The seam to whoever can be asked at once whether a plan may go on."""

from dataclasses import dataclass
from typing import Protocol

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


class Nobody:
    """The approver of a plan that runs without anybody to ask."""

    async def ask(self, asked: ApprovalAsked) -> Verdict | None:  # noqa: ARG002 - the seam's shape
        """Answer that nobody is there."""
        return None


__all__ = ["Approver", "Nobody", "Verdict"]
