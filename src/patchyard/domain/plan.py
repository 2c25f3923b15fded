"""A plan: what was asked, and its life as one transition table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from patchyard.domain.analysis_settings import MAP_TOKENS
from patchyard.domain.budget import PlanLimits
from patchyard.domain.checkpoint import DEFAULT_TRIGGERS, Trigger
from patchyard.domain.devcontainer import Devcontainer
from patchyard.domain.environment import ExecutionEnvironment, Priority, Site
from patchyard.domain.environment_limits import EnvironmentLimits
from patchyard.domain.errors import GuardRefused
from patchyard.domain.gates import Gate
from patchyard.domain.invariant import Invariant
from patchyard.domain.lineage import Lineage
from patchyard.domain.mcp import McpServer
from patchyard.domain.network import NetworkGrant
from patchyard.domain.preference import ToolPreference
from patchyard.domain.resource import Resource
from patchyard.domain.role import Role
from patchyard.domain.safety import SafetyProfile


class Phase(StrEnum):
    """The four phases (B+)."""

    ACTION = "action"
    STRATEGIZE = "strategize"
    EXECUTE = "execute"
    APPLY = "apply"


class State(StrEnum):
    """Where a plan stands within its phase."""

    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETE = "complete"
    ERRORED = "errored"
    CONSTRAINED = "constrained"
    CANCELLED = "cancelled"
    APPLIED = "applied"


Step = tuple[Phase, State]

MANUAL = "manual"  # nothing goes on by itself
AUTO = "auto"  # all goes on by itself, but for apply
PROFILES = (  # of automation, from the most to the least hesitant (B+)
    MANUAL,
    "review",
    "supervised",
    "cautious",
    "trusted",
    AUTO,
    "ci",
    "full-auto",
)

_STOPPED = (State.ERRORED, State.CONSTRAINED, State.CANCELLED)
_BACK_TO_START: Step = (Phase.STRATEGIZE, State.QUEUED)

TRANSITIONS: Mapping[Step, frozenset[Step]] = {
    (Phase.ACTION, State.QUEUED): frozenset({_BACK_TO_START}),
    (Phase.STRATEGIZE, State.QUEUED): frozenset(
        {(Phase.STRATEGIZE, State.PROCESSING), (Phase.STRATEGIZE, State.CANCELLED)}
    ),
    (Phase.STRATEGIZE, State.PROCESSING): frozenset(
        {(Phase.STRATEGIZE, state) for state in (State.COMPLETE, *_STOPPED)}
    ),
    (Phase.STRATEGIZE, State.COMPLETE): frozenset(
        {(Phase.EXECUTE, State.QUEUED), _BACK_TO_START, (Phase.STRATEGIZE, State.CANCELLED)}
    ),
    **{
        (Phase.STRATEGIZE, state): frozenset(
            {(Phase.STRATEGIZE, State.PROCESSING), _BACK_TO_START}  # resumed, or begun again
        )
        for state in _STOPPED
    },
    (Phase.EXECUTE, State.QUEUED): frozenset(
        {(Phase.EXECUTE, State.PROCESSING), (Phase.EXECUTE, State.CANCELLED), _BACK_TO_START}
    ),
    (Phase.EXECUTE, State.PROCESSING): frozenset(
        {(Phase.EXECUTE, state) for state in (State.COMPLETE, *_STOPPED)}
    ),
    (Phase.EXECUTE, State.COMPLETE): frozenset(
        {(Phase.APPLY, State.QUEUED), (Phase.EXECUTE, State.QUEUED), _BACK_TO_START}  # corrected
    ),
    **{
        (Phase.EXECUTE, state): frozenset(
            {(Phase.EXECUTE, State.PROCESSING), (Phase.EXECUTE, State.QUEUED), _BACK_TO_START}
        )
        for state in _STOPPED
    },
    (Phase.APPLY, State.QUEUED): frozenset(
        {(Phase.APPLY, State.PROCESSING), (Phase.EXECUTE, State.COMPLETE)}
    ),
    (Phase.APPLY, State.PROCESSING): frozenset(
        {
            (Phase.APPLY, State.APPLIED),
            (Phase.APPLY, State.ERRORED),
            (Phase.APPLY, State.CONSTRAINED),
            (Phase.EXECUTE, State.COMPLETE),  # a partial apply
        }
    ),
    (Phase.APPLY, State.ERRORED): frozenset({(Phase.APPLY, State.QUEUED), _BACK_TO_START}),
    (Phase.APPLY, State.CONSTRAINED): frozenset({(Phase.APPLY, State.QUEUED), _BACK_TO_START}),
    (Phase.APPLY, State.APPLIED): frozenset(),
}


def check_transition(old: Step, new: Step) -> None:
    """Raise GuardRefused unless the table allows to go from `old` to `new`."""
    if new in TRANSITIONS[old]:
        return
    allowed = ", ".join(sorted(f"{phase}/{state}" for phase, state in TRANSITIONS[old])) or "none"
    raise GuardRefused(
        f"a plan cannot go from {old[0]}/{old[1]} to {new[0]}/{new[1]}",
        hint=f"from {old[0]}/{old[1]} it can go to: {allowed}",
    )


@dataclass(frozen=True, kw_only=True)
class PlanSpec:
    """What was asked for, fixed when the plan is made. Holds no secret value."""

    task: str  # the task text, or the action's goal with its arguments filled in
    repository: str  # absolute path of the user's checkout
    ref: str | None = None  # None: the checkout as it is; "head" or a ref: that commit
    project: str | None = None
    action: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[Mapping[str, Any], ...] = ()  # of the action, for the recipe actor
    definition_of_done: tuple[str, ...] = ()
    agent: str = "model"  # model, recipe, or the name of another actor
    model: str = ""  # PROVIDER:MODEL; empty: chosen when needed
    models: str = ""  # text of the repository's models.yaml, where it was trusted
    role: str = "developer"
    is_role_given: bool = True  # False: none was named, so that another may be proposed
    charter: Role = field(default_factory=lambda: Role(name="developer"))  # what the role says
    team: tuple[Role, ...] = ()  # who looks at the proven work, in this order
    askable: tuple[Role, ...] = ()  # whom its actor can put questions to
    subject: str = ""  # the tree without the change that the role's work is about; empty: found
    environment: str | None = None  # plan level of the chain: a kind or a linked resource
    environment_source: str = "plan"  # who set it: an option, run-default
    environment_priority: Priority | None = None  # None: not set (A+)
    project_environment: str | None = None
    project_priority: Priority | None = None
    has_discovery: bool = False  # a devcontainer in the checkout counts (A+)
    resource_environment: str | None = None  # of a linked resource (F2.4)
    default_environment: str = str(ExecutionEnvironment.HOST)
    tool_environments: Mapping[str, str] = field(default_factory=dict)
    tool_preferences: Mapping[str, ToolPreference] = field(default_factory=dict)
    resources: tuple[Resource, ...] = ()  # the linked ones that it can be sent to
    discovered: Resource | None = None  # the devcontainer of the checkout, where that counts
    devcontainers: Mapping[str, Devcontainer] = field(default_factory=dict)  # by resource
    image: str = ""  # of a container that names none: by the repository's language
    setup: tuple[str, ...] = ()
    setup_share: str = "tree"  # tree, or lockfiles: over which trees its layer is shared
    validate: tuple[str, ...] = ()
    gates: tuple[Gate, ...] = ()
    invariants: tuple[Invariant, ...] = ()
    limits: PlanLimits = field(default_factory=PlanLimits)
    adjustable: tuple[str, ...] = ()  # of `limits`: left unset; the strategy may move them
    environment_limits: EnvironmentLimits = field(default_factory=EnvironmentLimits)  # typed
    usual_limits: EnvironmentLimits = field(default_factory=EnvironmentLimits)  # project and files
    rounds: int = 3  # how often a failed proof goes back to the actor
    apply_to: str = "none"  # none, worktree, branch, merge, patch
    requires_changes: bool = False
    allow_paths: tuple[str, ...] = ()
    protected_paths: tuple[str, ...] = ()  # globs beside the shipped list
    include: tuple[str, ...] = ()  # ignored folders that come along read-only
    variables: Mapping[str, str] = field(default_factory=dict)  # readable by the agent
    mounts: tuple[str, ...] = ()  # PATH[:ro|rw]
    mcp_servers: tuple[McpServer, ...] = ()  # whose tools are offered beside ours
    network: NetworkGrant = field(default_factory=NetworkGrant)
    checkpoints: tuple[Trigger, ...] = DEFAULT_TRIGGERS  # when they are made
    automation_profile: str = AUTO
    approvals: tuple[str, ...] = ()  # phases, categories and tools that somebody is asked for
    safety: SafetyProfile = field(default_factory=SafetyProfile)
    record_to: str | None = None  # file for --record
    map_tokens: int = MAP_TOKENS  # that a map of the repository may take; 0: none is made
    lineage: Lineage | None = None  # the plan that it comes from

    def resource(self, name: str) -> Resource | None:
        """Return the resource of that name that calls can be routed to."""
        own = (*self.resources, *([self.discovered] if self.discovered else []))
        return next((each for each in own if each.name == name), None)

    def walls_at(self, site: Site) -> ExecutionEnvironment:
        """Return the kind whose walls stand around what runs there: of a host, what it carries."""
        found = self.resource(site.resource)
        return found.carries if found and found.carries else site.kind


__all__ = [
    "AUTO",
    "MANUAL",
    "PROFILES",
    "TRANSITIONS",
    "Phase",
    "PlanSpec",
    "State",
    "Step",
    "check_transition",
]
