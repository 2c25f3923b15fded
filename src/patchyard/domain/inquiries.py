"""Questions that an actor puts to other roles, each answered in a plan of its own: as events."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from patchyard.domain.body import Body
from patchyard.domain.colleagues import Used

SHOWN_CHARS = 500  # of a question, for people
ANSWER_CHARS = 16_000  # of one answer; what is longer is cut


@dataclass(frozen=True, kw_only=True)
class RoleAsked:
    """The call `call_id` puts a question to another role, who answers in plan `colleague_id`."""

    call_id: str
    role: str
    colleague_id: str  # fixed before that plan is made, so that there is one of it
    tree: str  # that the other role looks at
    changes: int = 0  # that it holds over the plan's base
    question: str = ""  # its beginning, for people


@dataclass(frozen=True, kw_only=True)
class RoleAnswered(Used):
    """A question is settled, and what the other role used counts as this plan's."""

    call_id: str
    role: str
    colleague_id: str
    error: str = ""  # code of why there is no answer


@dataclass(frozen=True, kw_only=True)
class AnswerGiven:
    """What a role answers the question that its plan was made for."""

    body: Body  # text


@dataclass(frozen=True, kw_only=True)
class Inquiries:
    """The questions of one plan."""

    asked: Mapping[str, RoleAsked] = field(default_factory=dict)  # by call, oldest first
    answered: Mapping[str, RoleAnswered] = field(default_factory=dict)  # likewise

    @property
    def open(self) -> Mapping[str, RoleAsked]:
        """Those without an answer, by call."""
        return {call: asked for call, asked in self.asked.items() if call not in self.answered}


InquiryEvent = RoleAsked | RoleAnswered | AnswerGiven

__all__ = [
    "ANSWER_CHARS",
    "SHOWN_CHARS",
    "AnswerGiven",
    "Inquiries",
    "InquiryEvent",
    "RoleAnswered",
    "RoleAsked",
]
