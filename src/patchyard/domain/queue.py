"""Who may carry a plan on, and which plan comes next: leases, jobs, the slots they take. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from patchyard.domain.announcing import Announcement

if TYPE_CHECKING:
    from patchyard.domain.plan import PlanSpec  # at run time it costs a list of plans a tenth

HEARTBEAT_S = 3.0  # between two signs of life (design, "Scale by standing on others")
DEAD_S = 10.0  # without one: whoever owned plans owns them no more
DEATHS = 10  # owners that a job may outlive before it waits for a person
CHORE = "chore:"  # what the id of a job begins with that is no plan


class Errand(StrEnum):
    """What an owner does with a plan, so that the next one can carry it on."""

    NONE = ""  # a change made at once: a death leaves nothing to go on with
    RUN = "run"
    STRATEGIZE = "strategize"
    EXECUTE = "execute"
    CHORE = "chore"  # no plan: housekeeping of the installation, at intervals


@dataclass(frozen=True, kw_only=True)
class Seat:
    """One process for certain, told apart from all others of this machine and its past."""

    boot: str  # id of the machine's present life
    namespace: str  # of process numbers: they mean nothing in another one
    pid: int
    started: int  # clock ticks since boot


@dataclass(frozen=True, kw_only=True)
class Member:
    """A process that may own plans: a worker, or a command that somebody typed."""

    member_id: str
    name: str
    seat: Seat
    beat: float  # last sign of life, on the clock that all processes of a boot share
    since: float = 0.0  # seconds since the epoch
    concurrency: int = 0  # plans at once; 0: a command, which takes none from the queue
    is_draining: bool = False  # takes no new plan
    announced: Announcement | None = None  # what a worker says of itself

    @property
    def is_worker(self) -> bool:
        """Whether it takes plans from the queue."""
        return self.concurrency > 0

    @property
    def shown(self) -> str:
        """How people know it: a worker by its name."""
        process = f"process {self.seat.pid}"
        return f"worker {self.name}, {process}" if self.is_worker else process


@dataclass(frozen=True, kw_only=True)
class Lease:
    """The right to write one plan's journal, until a higher generation is given out."""

    job_id: str
    member_id: str
    generation: int  # 1, 2, 3 ... each owner of the plan has a higher one
    worker: str = ""  # name of the worker; empty: a command


@dataclass(frozen=True, kw_only=True)
class Job:
    """What waits for a worker: a plan, or a chore of the installation."""

    job_id: str  # the plan's id, or `chore:NAME`
    errand: Errand = Errand.RUN
    project: str = ""  # the lane it waits in, with its model
    model: str = ""
    role: str = ""  # whose plan it is; empty: anybody's
    priority: int = 0  # higher first
    not_before: float = 0.0  # seconds since the epoch
    every_s: float = 0.0  # a chore comes back so long after it was done
    queued: float = 0.0  # seconds since the epoch
    number: int = 0  # order of arrival, given by the queue
    deaths: int = 0  # of owners, while they worked on it


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How many plans may run at once, over all workers. None: as many as there are workers for."""

    per_project: int | None = None
    per_model: int | None = None
    projects: Mapping[str, int] = field(default_factory=dict)  # where one differs
    models: Mapping[str, int] = field(default_factory=dict)

    def of(self, scope: str) -> int | None:
        """Return the limit of a scope such as `project:shop`, None where there is none."""
        kind, _, name = scope.partition(":")
        if kind == "project":
            return self.projects.get(name, self.per_project)
        if kind == "model":
            return self.models.get(name, self.per_model)
        return None


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A worker took the plan from the queue, and these slots with it."""

    worker: str
    generation: int
    slots: tuple[str, ...] = ()


def job_of(
    plan_id: str,
    spec: "PlanSpec",
    *,
    errand: Errand = Errand.RUN,
    priority: int = 0,
    not_before: float = 0.0,
) -> Job:
    """Return the job of a plan: in the lane of its project (else repository), model and role."""
    return Job(
        job_id=plan_id,
        errand=errand,
        project=spec.project or spec.repository,
        model=spec.model if spec.agent == "model" else "",
        role=spec.role,
        priority=priority,
        not_before=not_before,
    )


def scopes_of(job: Job, worker: str) -> tuple[str, ...]:
    """Return the slots that `job` takes while `worker` carries it out."""
    if job.errand == Errand.CHORE:
        return (f"worker:{worker}",)
    named = ((f"project:{job.project}", job.project), (f"model:{job.model}", job.model))
    return (f"worker:{worker}", *(scope for scope, name in named if name))


def full_scope(scopes: Iterable[str], taken: Mapping[str, int], limits: Limits) -> str | None:
    """Return the first scope that has no slot left, None while all have."""
    for scope in scopes:
        limit = limits.of(scope)
        if limit is not None and taken.get(scope, 0) >= limit:
            return scope
    return None


def next_job(
    heads: Sequence[tuple[Job, int]], taken: Mapping[str, int], limits: Limits, *, worker: str
) -> Job | None:
    """Return which of the first jobs of each lane comes next, None when all must wait.

    `heads` has, beside each, when its lane was last served. The highest priority first; then the
    project with the fewest plans at work, the one served longest ago, the oldest job.
    """
    free = [
        (job, served)
        for job, served in heads
        if full_scope(scopes_of(job, worker), taken, limits) is None
    ]
    if not free:
        return None

    def rank(head: tuple[Job, int]) -> tuple[int, int, int, int]:
        job, served = head
        return -job.priority, taken.get(f"project:{job.project}", 0), served, job.number

    return min(free, key=rank)[0]


def is_silent(member: Member, now: float, boot: str) -> bool:
    """Whether a member gave no sign of life for so long, or in another life of the machine."""
    return member.seat.boot != boot or now - member.beat > DEAD_S


__all__ = [
    "CHORE",
    "DEAD_S",
    "DEATHS",
    "HEARTBEAT_S",
    "Errand",
    "Job",
    "Lease",
    "Limits",
    "Member",
    "Seat",
    "Taken",
    "full_scope",
    "is_silent",
    "job_of",
    "next_job",
    "scopes_of",
]
