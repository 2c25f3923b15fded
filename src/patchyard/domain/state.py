"""What is so of a plan: made of its events by `domain/fold.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchyard.domain.analysis import TaskAnalysed, TaskKind
from patchyard.domain.assessing import TaskAssessed
from patchyard.domain.budget import PlanLimits, Spent
from patchyard.domain.changeset import Base
from patchyard.domain.colleagues import Colleagues
from patchyard.domain.decision import Decision
from patchyard.domain.design_record import DesignRecorded
from patchyard.domain.environment import EnvironmentHandle
from patchyard.domain.errors import JournalBroken
from patchyard.domain.events import (
    Applied,
    ApplyIntended,
    ChangeSetCaptured,
    InvariantChecked,
    PhaseFailed,
    SetupFinished,
    ToolCallRequested,
    TurnRequested,
    Validated,
)
from patchyard.domain.growing import Growing
from patchyard.domain.inquiries import AnswerGiven, Inquiries
from patchyard.domain.marks import Mark
from patchyard.domain.plan import Phase, PlanSpec, State
from patchyard.domain.removal import RemovalProven
from patchyard.domain.review import Reviewed
from patchyard.domain.review_coverage import CoverageMeasured
from patchyard.domain.spending import Held
from patchyard.domain.steering import Steered
from patchyard.domain.steps import Steps
from patchyard.domain.traffic import Traffic
from patchyard.domain.usage_fold import Used


@dataclass(frozen=True, kw_only=True)
class LiveEnvironment:
    """An environment that was started and not yet ended."""

    handle: EnvironmentHandle
    purpose: str


@dataclass(frozen=True, kw_only=True)
class PlanState:
    """All that the journal says of one plan."""

    plan_id: str
    version: int = 0  # of the last event folded in
    spec: PlanSpec | None = None  # None until PlanCreated
    phase: Phase = Phase.ACTION
    state: State = State.QUEUED
    reason: str = ""
    created: float = 0.0  # seconds since the epoch
    updated: float = 0.0
    base: Base | None = None
    analysed: TaskAnalysed | None = None  # of that base
    assessed: TaskAssessed | None = None  # by the strategy
    attempt: int = 0  # of the present phase: how often it began to process
    attempt_starts: int = 0  # version at which the phase's transcript begins
    turn: int = 0  # last turn taken in this transcript
    models: tuple[str, ...] = ()  # that were asked, in the order of their first turn
    asked: TurnRequested | None = None  # a turn that is asked for and not taken
    open_calls: Mapping[str, ToolCallRequested] = field(default_factory=dict)
    tool_calls: int = 0
    decisions: tuple[Decision, ...] = ()
    decision_root_id: str | None = None
    strategy: str = ""
    summary: str = ""
    invariants: tuple[InvariantChecked, ...] = ()
    workspace: Mapping[str, Any] | None = None  # a WorkspaceRef
    environments: Mapping[str, LiveEnvironment] = field(default_factory=dict)
    left_out: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)  # by site
    sandbox_refs: tuple[str, ...] = ()  # ids of all environments that ever ran
    reached: frozenset[str] = frozenset()  # places that were started once, by name
    fallen: Mapping[str, str] = field(default_factory=dict)  # preferred ones given up, and why
    setup: SetupFinished | None = None
    network: tuple[Traffic, ...] = ()  # what went through the gateways, by place
    changeset: ChangeSetCaptured | None = None
    validation: Validated | None = None
    colleagues: Colleagues = field(default_factory=Colleagues)
    inquiries: Inquiries = field(default_factory=Inquiries)  # questions to other roles
    answer: AnswerGiven | None = None  # to the question that the plan was made for
    removal: RemovalProven | None = None  # of tests: they fail without their subject
    review: Reviewed | None = None
    coverage: CoverageMeasured | None = None  # of what is reviewed
    record: DesignRecorded | None = None
    rounds: int = 0  # failed proofs that were given back to the actor in this phase
    intended: ApplyIntended | None = None
    handed: tuple[Applied, ...] = ()  # hand-overs that were not taken back, oldest first
    failure: PhaseFailed | None = None
    spent: Spent = field(default_factory=Spent)
    used: Used = field(default_factory=Used)  # of the machine, by all environments
    held: Held | None = None  # set aside for a request without an answer
    awaits_room: str = ""  # which shared budget is waited for
    reverts: int = 0
    calls_of_turn: int = 0  # that were asked for since the last turn
    checkpoints: Growing[Mark] = field(default_factory=Growing)  # oldest first
    restoring: str = ""  # the checkpoint that the files are being brought back to
    repeats: Mapping[str, int] = field(default_factory=dict)  # open calls that were sent again
    steered: Steered = field(default_factory=Steered)  # pauses, guidance, approvals, retries
    steps: Steps = field(default_factory=Steps)  # the seven

    @property
    def applied(self) -> Applied | None:
        """The newest hand-over that was not taken back."""
        return self.handed[-1] if self.handed else None

    @property
    def task_kind(self) -> TaskKind | None:
        """What the strategy says that the task is; None: it does not say."""
        return None if self.assessed is None else self.assessed.kind

    @property
    def limits(self) -> PlanLimits:
        """The plan's limits."""
        return self.known.limits

    @property
    def known(self) -> PlanSpec:
        """The spec. Raises JournalBroken on a stream that does not begin with a plan."""
        if self.spec is None:
            raise JournalBroken(f"the journal of plan {self.plan_id} does not begin with a plan")
        return self.spec


__all__ = ["LiveEnvironment", "PlanState"]
