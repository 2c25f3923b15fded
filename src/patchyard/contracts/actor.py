"""The seam to whoever thinks: given what happened, the next calls or the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from patchyard.contracts.model import Meter, OnSwitch, OnText, OnWait
from patchyard.domain.analysis import Context, Guide, Ownership, Symbol
from patchyard.domain.assessing import Assessment
from patchyard.domain.decision import Proposal
from patchyard.domain.messages import Image, Message, ModelReply, Usage
from patchyard.domain.plan import PlanSpec
from patchyard.domain.role import Output
from patchyard.domain.tooling import ToolResult, ToolSpec


@dataclass(frozen=True, kw_only=True)
class Background:
    """What the analysis found of the repository. Its texts are the repository's: input."""

    context: Context
    owners: tuple[Ownership, ...] = ()  # of the files that the task names
    guides: tuple[Guide, ...] = ()
    symbols: tuple[Symbol, ...] = ()  # of the map, the most worth knowing first
    map_tokens: int = 0  # that they may take; less where the model's window is small


@dataclass(frozen=True, kw_only=True)
class Brief:
    """What an actor is told before it begins. Everything in it is data of the plan."""

    plan_id: str
    phase: str  # strategize or execute
    task: str  # the task text, or the action's goal with its arguments filled in
    workspace_path: str  # absolute path inside the environment
    environment: str  # kind, for the prompt
    tools: tuple[ToolSpec, ...]
    definition_of_done: tuple[str, ...] = ()
    invariants: tuple[str, ...] = ()  # effective texts, reconciled
    validation: tuple[str, ...] = ()  # commands the proof will run
    strategy: str = ""  # execute only: what strategize concluded
    steps: tuple[Mapping[str, Any], ...] = ()  # recipe only: the action's declared steps
    arguments: Mapping[str, str] = field(default_factory=dict)  # of the action
    findings: tuple[str, ...] = ()  # what earlier attempts came to, oldest first
    network: tuple[str, ...] = ()  # what commands can reach, a sentence each; empty: nothing
    role: str = ""  # the prompt of the role
    output: Output = Output.CHANGES  # what must come of execute
    subject: str = ""  # the change that a review or a test is about, as a patch
    background: Background | None = None  # what is known of the repository; None: nothing


@dataclass(frozen=True, kw_only=True)
class Casting:
    """Who is wanted for one phase of one plan, and who listens while they think."""

    plan_id: str
    spec: PlanSpec
    phase: str  # strategize or execute
    kind: str = ""  # of the task, as its strategy says; empty: its words are gone by
    on_text: OnText | None = None  # what a model says, piece by piece; never journalled
    on_wait: OnWait | None = None  # what a model is waited for, in words
    on_terms: Callable[[str], None] | None = None  # which model it is, and what bounds its cost
    meter: Meter | None = None  # who pays; None: nobody counts
    on_switch: OnSwitch | None = None  # that another model of a chain is asked
    on_chosen: Callable[[str], None] | None = None  # which model was chosen, and why


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A call an actor asks for. The engine gives it its call_id."""

    ref: str  # the actor's own id for it, answered with the result
    name: str
    arguments: Mapping[str, Any] | None  # None: they could not be parsed
    problem: str = ""  # why the call cannot be made, told back as the result


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One step of thought: calls to make, or the end with a summary. Journalled whole.

    A turn without calls that is not final is a step too (the actor was set right, or answered one
    of its own calls): the engine journals it and asks on with no answers.
    """

    calls: tuple[Wanted, ...] = ()
    text: str = ""  # what the actor said beside its calls
    is_final: bool = False
    summary: str = ""  # final only: what was done, for people
    failure: str = ""  # final only: why the work cannot be done
    can_go_on: bool = False  # final with failure: asked on after a resume, it may end well
    has_more: bool = False  # final of a round that others follow, whatever its proof says
    sent_back: str = ""  # why the actor was set right, for people who watch; no end of the work
    proposals: tuple[Proposal, ...] = ()  # decisions made in this turn
    assessment: Assessment | None = None  # final of strategize only: what the task is
    product: Mapping[str, Any] = field(default_factory=dict)  # final only: what else finish said
    usage: Usage | None = None  # None: no model was asked
    usd: float | None = None  # price of it; None: unknown, or no model was asked
    model: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)  # the actor's own data, for `restore`


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The result of one wanted call, as given back to the actor."""

    ref: str
    name: str
    result: ToolResult
    text: str  # rendered for a model
    images: tuple[Image, ...] = ()  # for a model that can see


class Session(Protocol):
    """One actor at work in one phase of one plan."""

    async def next(self, answers: Sequence[Answered], *, note: str = "") -> Turn:
        """Think once. `answers` are the results of the turn before.

        `note` is a word of the engine (a failed proof, a warning). Raises ModelFailed,
        ModelUnavailable, LimitReached.
        """
        ...

    async def restore(self, turn: Turn, answers: Sequence[Answered], *, note: str = "") -> None:
        """Take in one step of an earlier life: what `next` got and gave. Asks nobody."""
        ...

    async def close(self) -> None:
        """End it. Called once, also after failure and cancel."""
        ...


@runtime_checkable
class Lending(Protocol):
    """A session that can lend its model to others for one answer."""

    async def lend(self, messages: Sequence[Message], *, max_tokens: int) -> ModelReply:
        """Ask the model apart from the conversation, without tools.

        It is paid for like any request. Raises ModelFailed, ModelUnavailable, LimitReached.
        """
        ...


class Actor(Protocol):
    """Somebody who can carry out a brief."""

    async def begin(self, brief: Brief) -> Session:
        """Open a session. Raises ModelUnavailable or UsageError before anything was done."""
        ...


__all__ = [
    "Actor",
    "Answered",
    "Background",
    "Brief",
    "Casting",
    "Lending",
    "Session",
    "Turn",
    "Wanted",
]
