"""Where jobs stand in the queue: who is at each, or what it waits for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchyard.contracts.clock import Clock
from patchyard.contracts.queue import Queue
from patchyard.domain.announcing import takes
from patchyard.domain.queue import DEATHS, Job, Limits, Member, full_scope, scopes_of

NONE_ALIVE = "none is alive"
NOBODY = f"a worker: {NONE_ALIVE}"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One job of the queue as people are told of it."""

    job: Job
    worker: str | None = None  # who is at it
    waits_for: str = ""  # empty while somebody is at it

    @property
    def is_stranded(self) -> bool:
        """Whether no worker that lives will ever take it."""
        return self.waits_for.endswith(NONE_ALIVE)

    def data(self) -> Mapping[str, object]:
        """Return it for programs."""
        return {
            "worker": self.worker,
            "waits_for": self.waits_for or None,
            "since": self.job.queued,
            "priority": self.job.priority,
            "not_before": self.job.not_before or None,
        }


async def standings(queue: Queue, clock: Clock, limits: Limits) -> Mapping[str, Standing]:
    """Return where each job stands, by its id."""
    jobs = await queue.jobs()
    if not jobs:
        return {}
    workers = [each for each in await queue.members() if each.is_worker]
    taken = Counter(
        scope for job, name in jobs if name is not None for scope in scopes_of(job, name)
    )
    now = clock.now()
    alive = {each.name for each in workers}
    return {
        job.job_id: Standing(
            job=job,
            worker=name,
            waits_for="" if name else waits_for(job, workers, taken, limits, now),
        )
        for job, said in jobs
        for name in [said if said in alive else None]  # what a dead one had waits for another
    }


def waits_for(
    job: Job, workers: Sequence[Member], taken: Mapping[str, int], limits: Limits, now: float
) -> str:
    """Return what a job waits for that nobody is at, the most lasting cause first."""
    if job.deaths >= DEATHS:
        return f"a person: it was given up {job.deaths} times; look at its events, then resume it"
    if not workers:
        return NOBODY
    if not any(takes(_roles(each), job.role) for each in workers):
        return f"a worker for the role {job.role}: {NONE_ALIVE}"
    if job.not_before > now:
        return f"its time, in {job.not_before - now:.0f} s"
    scope = full_scope(scopes_of(job, ""), taken, limits)
    if scope is not None:
        kind, _, name = scope.partition(":")
        return f"a slot of {kind} {name} ({taken[scope]} of {limits.of(scope)} taken)"
    return "a free worker"


def _roles(worker: Member) -> tuple[str, ...]:
    """Return the roles that a worker keeps to; empty: it takes all."""
    said = worker.announced
    return () if said is None or said.skills.takes_all else said.skills.roles


__all__ = ["NOBODY", "NONE_ALIVE", "Standing", "standings", "waits_for"]
