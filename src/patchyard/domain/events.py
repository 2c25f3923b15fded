"""All that can happen to a plan, one record each. The order they lie in is the truth."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from patchyard.domain.assessing import AnalysisEvent
from patchyard.domain.body import Body
from patchyard.domain.budget import PlanLimits
from patchyard.domain.changeset import Base
from patchyard.domain.checkpoint import CheckpointEvent
from patchyard.domain.colleagues import ColleagueEvent
from patchyard.domain.decision import Decision
from patchyard.domain.design_record import DesignRecorded
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment, Site
from patchyard.domain.failover import ModelSwitched
from patchyard.domain.inquiries import InquiryEvent
from patchyard.domain.invariant import Invariant, Scope
from patchyard.domain.plan import Phase, PlanSpec, State
from patchyard.domain.preference import PreferenceFell
from patchyard.domain.queue import Taken
from patchyard.domain.removal import RemovalProven
from patchyard.domain.resource import Resource
from patchyard.domain.review import Reviewed
from patchyard.domain.review_coverage import CoverageMeasured
from patchyard.domain.sampling import ModelLent
from patchyard.domain.spending import SpendingEvent
from patchyard.domain.steering import SteeringEvent
from patchyard.domain.steps import StepEnded
from patchyard.domain.traffic import NetworkUsed
from patchyard.domain.usage import Usage

EVENT_BYTES = 16 * 1024  # an encoded event is never larger; larger bodies are blobs
SCHEMA = 2  # newest version of the shapes below; see `meanings.py`


@dataclass(frozen=True, kw_only=True)
class PlanCreated:
    """A plan was made."""

    spec: PlanSpec


@dataclass(frozen=True, kw_only=True)
class BaseRecorded:
    """The tree the plan starts from is fixed."""

    base: Base
    left_out: tuple[str, ...] = ()  # nested repositories and the like


@dataclass(frozen=True, kw_only=True)
class Moved:
    """The plan went to another phase or state."""

    phase: Phase
    state: State
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class DecisionRecorded:
    """One node was added to the decision tree."""

    decision: Decision


@dataclass(frozen=True, kw_only=True)
class InvariantChecked:
    """An invariant's check really ran."""

    text: str
    scope: Scope
    when: str  # before, after
    passed: bool
    exit_code: int | None = None
    output: str = ""  # its end, at most 2,000 characters


@dataclass(frozen=True, kw_only=True)
class WorkspaceCreated:
    """The plan's writable tree is there."""

    workspace: Mapping[str, Any]  # a WorkspaceRef


@dataclass(frozen=True, kw_only=True)
class WorkspaceRemoved:
    """The plan's writable tree was given up."""

    workspace_id: str


@dataclass(frozen=True, kw_only=True)
class EnvironmentStarted:
    """An environment is up; this is how to find it again."""

    handle: EnvironmentHandle
    purpose: str
    is_from_pool: bool = False  # it was up before the plan needed it, and no plan had used it


@dataclass(frozen=True, kw_only=True)
class EnvironmentEnded:
    """An environment was ended, or was found to be gone."""

    environment_id: str
    reason: str = ""
    usage: Usage | None = None  # all that was used there; None: nobody could say
    left_out: tuple[tuple[str, str], ...] = ()  # paths that stayed there, or parts of them; why


@dataclass(frozen=True, kw_only=True)
class SetupFinished:
    """The setup commands ran, or their layer was found in the cache."""

    key: str
    layer: str  # host path of the read-only layer, empty when nothing was written
    is_cached: bool
    commands: tuple[str, ...] = ()
    requests: int = 0  # that came through the index gateways
    received: int = 0  # bytes that came in through them


@dataclass(frozen=True, kw_only=True)
class TurnRequested:
    """The actor is about to think (a model is about to be asked)."""

    turn: int  # 1, 2, 3 ... within the phase's attempt
    note: str = ""  # the engine's word to the actor, given with this turn
    reserved_tokens: int = 0  # charged when the answer is lost
    told: int = 0  # how many words of guidance it holds


@dataclass(frozen=True, kw_only=True)
class TurnTaken:
    """The actor has thought."""

    turn: int
    note: str
    body: Body  # a Turn
    usd: float | None = None  # price of it, None when unknown or no model was asked
    input_tokens: int = 0
    output_tokens: int = 0
    asked_model: bool = False
    guidance: str = ""  # people's words to the actor, given with this turn
    model: str = ""  # that was asked


@dataclass(frozen=True, kw_only=True)
class ToolCallRequested:
    """A call is about to be sent. On disk before it is."""

    call_id: str
    turn: int
    ref: str  # the actor's own id of it
    name: str
    arguments: Body
    environment_id: str  # empty: answered by the engine itself
    kind: ExecutionEnvironment | None = None
    level: str = ""  # which level of the chain decided
    reason: str = ""
    resource: str = ""  # name of the linked one that it is reached through
    server: str = ""  # MCP server to whose own environment it goes
    checkpoint_id: str = ""  # the files were as there when it was sent; empty: not known

    @property
    def site(self) -> Site | None:
        """Where it was routed; None where the engine answered it itself."""
        return None if self.kind is None else Site(self.kind, self.resource, self.server)


@dataclass(frozen=True, kw_only=True)
class ToolCallSettled:
    """A call has its one result."""

    call_id: str
    success: bool
    message: str
    error: str | None = None
    data: Body = field(default_factory=Body)
    started: float = 0.0  # CLOCK_REALTIME_COARSE inside, seconds
    ended: float = 0.0  # CLOCK_REALTIME inside; by 0.6.0 and earlier CLOCK_REALTIME_COARSE
    paths: tuple[str, ...] = ()  # what a file tool says it wrote
    is_reattached: bool = False
    usage: Usage | None = None  # None: nobody could say
    limit: str | None = None  # that it hit; it may have ended well all the same


@dataclass(frozen=True, kw_only=True)
class StrategyRecorded:
    """What strategize concluded."""

    summary: str
    decision_root_id: str


@dataclass(frozen=True, kw_only=True)
class WorkSummarised:
    """What the actor says it has done, at the end of execute."""

    summary: str


@dataclass(frozen=True, kw_only=True)
class ChangeSetCaptured:
    """What came of the work, computed outside the environment."""

    changeset_id: str
    base_tree: str
    tree: str
    files: int
    added: int  # lines
    removed: int
    findings: int
    body: Body  # a ChangeSet


@dataclass(frozen=True, kw_only=True)
class Validated:
    """The gates ran on a tree, in a fresh environment."""

    round: int
    changeset_id: str
    tree: str
    passed: bool
    results: Body  # a list of {command, exit_code, passed, before, output, elapsed_s}
    touched: tuple[str, ...] = ()  # changed files that the proof goes by, for the eye
    kind: ExecutionEnvironment | None = None
    held: tuple[str, ...] = ()  # paths that the gates took from the base
    silenced: tuple[str, ...] = ()  # added lines that silence a tool, `path:line`
    has_run: bool = True  # false where the change was only read, and nothing of it was run

    @property
    def is_proof(self) -> bool:
        """Whether something ran on the tree, and nothing stands against it."""
        return self.passed and self.has_run


@dataclass(frozen=True, kw_only=True)
class ApplyIntended:
    """Hand-over is about to write to the user's repository."""

    to: str
    changeset_id: str
    record: Body
    name: str = ""  # of the branch or the patch file, as ordered
    paths: tuple[str, ...] = ()  # only these, as ordered; empty: all


@dataclass(frozen=True, kw_only=True)
class Applied:
    """Hand-over is done."""

    to: str
    changeset_id: str
    record: Body  # how to take it back
    is_partial: bool = False


@dataclass(frozen=True, kw_only=True)
class Unapplied:
    """An earlier hand-over was taken back."""

    changeset_id: str
    is_begun: bool = False  # one that was cut short: an intent without a receipt


@dataclass(frozen=True, kw_only=True)
class PhaseFailed:
    """Why a phase stopped. Never overwrites what the phase had recorded (B8)."""

    phase: Phase
    code: str
    message: str
    hint: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    exit_code: int = 1


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Where the plan works was said anew, at the plan's level of the chain (A12)."""

    kind: str  # or a linked resource's name
    source: str  # such as the option that said it
    resources: tuple[Resource, ...] = ()  # linked by then; empty: as they were


@dataclass(frozen=True, kw_only=True)
class InvariantDeclared:
    """An invariant was added to the plan itself, before it was strategized."""

    invariant: Invariant


@dataclass(frozen=True, kw_only=True)
class LimitsChanged:
    """The plan's limits were set anew."""

    limits: PlanLimits
    word: int = 0  # its number among the words to the plan's owner; 0: recorded directly


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """Taken up by another process, or after a sleep; the time since the last event counts not."""

    process: int  # pid of the new owner


@dataclass(frozen=True, kw_only=True)
class Noted:
    """A word for people: a warning, a fact that explains what comes."""

    text: str


Event = (
    PlanCreated
    | BaseRecorded
    | Moved
    | DecisionRecorded
    | InvariantChecked
    | WorkspaceCreated
    | WorkspaceRemoved
    | EnvironmentStarted
    | EnvironmentEnded
    | SetupFinished
    | NetworkUsed
    | TurnRequested
    | TurnTaken
    | ToolCallRequested
    | ToolCallSettled
    | StrategyRecorded
    | WorkSummarised
    | ChangeSetCaptured
    | Validated
    | ApplyIntended
    | Applied
    | Unapplied
    | PhaseFailed
    | InvariantDeclared
    | LimitsChanged
    | Noted
    | Placed
    | PreferenceFell
    | Resumed
    | Taken
    | ColleagueEvent
    | InquiryEvent
    | ModelLent
    | ModelSwitched
    | DesignRecorded
    | RemovalProven
    | Reviewed
    | StepEnded
    | CoverageMeasured
    | SpendingEvent
    | AnalysisEvent
    | SteeringEvent
    | CheckpointEvent
)

TYPES: Mapping[str, type[Event]] = {record.__name__: record for record in get_args(Event)}

__all__ = [
    "EVENT_BYTES",
    "SCHEMA",
    "TYPES",
    "Applied",
    "ApplyIntended",
    "BaseRecorded",
    "Body",
    "ChangeSetCaptured",
    "DecisionRecorded",
    "EnvironmentEnded",
    "EnvironmentStarted",
    "Event",
    "InvariantChecked",
    "InvariantDeclared",
    "LimitsChanged",
    "Moved",
    "Noted",
    "PhaseFailed",
    "Placed",
    "PlanCreated",
    "Resumed",
    "SetupFinished",
    "StrategyRecorded",
    "ToolCallRequested",
    "ToolCallSettled",
    "TurnRequested",
    "TurnTaken",
    "Unapplied",
    "Validated",
    "WorkSummarised",
    "WorkspaceCreated",
    "WorkspaceRemoved",
]
