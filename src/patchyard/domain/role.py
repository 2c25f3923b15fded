"""Roles: who works on a task, with which words, tools and places, and what must come of it.

A role is data, a prompt and a policy; what it says is fixed when a plan is made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from patchyard.domain.gates import Gate
from patchyard.domain.limit_settings import LimitSettings

MAX_ASKS = 5  # questions to other roles, a plan
COMPANIONS = ("read_output", "job_output", "job_kill")  # of other tools; always there


class Output(StrEnum):
    """What must come of a role's work."""

    CHANGES = "changes"  # a change set, which the gates prove
    TESTS = "tests"  # likewise, and its tests fail where the change they are about is removed
    FINDINGS = "findings"  # a verdict on a change, and what is wrong with it; nothing is written
    RECORD = "record"  # a decision record; nothing is written
    ANSWER = "answer"  # a text; nothing is written


WRITING = frozenset({Output.CHANGES, Output.TESTS})


class Unusable(ValueError):
    """What came of a role's work is not what must come of it; says what is wrong."""


@dataclass(frozen=True, kw_only=True)
class Role:
    """One role."""

    name: str
    title: str = ""
    purpose: str = ""  # one line for people
    prompt: str = ""  # Markdown, before what every actor is told
    output: Output = Output.CHANGES
    tools: tuple[str, ...] = ()  # that it may use, beside COMPANIONS; empty: all
    environments: tuple[str, ...] = ()  # kinds that it may work in; empty: any
    limits: LimitSettings = field(default_factory=LimitSettings)  # the most of a plan
    gates: Mapping[str, Gate | None] = field(default_factory=dict)  # that prove its work too
    capabilities: tuple[str, ...] = ()
    expertise: tuple[str, ...] = ()
    may_ask: tuple[str, ...] = ()  # roles that it can put questions to while it works
    max_asks: int = MAX_ASKS  # questions a plan
    source: str = ""  # the file of its policy, or "shipped"

    @property
    def is_writing(self) -> bool:
        """Whether a change set comes of its work."""
        return self.output in WRITING

    def may_use(self, tool: str) -> bool:
        """Whether a tool is its to use."""
        return not self.tools or tool in self.tools or tool in COMPANIONS


__all__ = ["COMPANIONS", "MAX_ASKS", "WRITING", "Output", "Role", "Unusable"]
