"""The seam to the queue: plans wait for workers, who take them by leases and slots."""

from collections.abc import Collection, Sequence
from typing import Protocol

from patchyard.contracts.claims import Hold
from patchyard.domain.announcing import Announcement
from patchyard.domain.queue import Errand, Job, Limits, Member


class Queue(Protocol):
    """What waits, and who there is to do it."""

    async def put(self, job: Job) -> None:
        """Let `job` wait for a worker; on disk when this returns.

        A job that is there already, waiting or at work, stays as it is.
        """
        ...

    async def adopt(self, job: Job) -> None:
        """As `put`, where `Crew.reap` has told of the plan and nobody has seen to it since."""
        ...

    async def withdraw(self, job_id: str) -> None:
        """Take a job out; a worker that is at it is not disturbed. Idempotent."""
        ...

    async def jobs(self) -> Sequence[tuple[Job, str | None]]:
        """Return all jobs in the order they came, each with the name of the worker at it."""
        ...

    async def members(self) -> Sequence[Member]:
        """Return the living members, workers and commands, oldest first."""
        ...


class Crew(Protocol):
    """One worker among the others."""

    async def join(self, name: str, concurrency: int) -> Member:
        """Become a worker, or one anew after being fenced off.

        Raises Conflict while a living worker has that name.
        """
        ...

    async def claim(
        self, room: int, limits: Limits, *, roles: Collection[str] = ()
    ) -> Sequence[tuple[Hold, Job]]:
        """Take up to `room` jobs that are due, each with a lease and its slots, in one step.

        Of the plans only those of `roles`, where some are named. Raises FencedOff when there are
        any and this worker was taken for dead.
        """
        ...

    async def announce(self, said: Announcement) -> None:
        """Let `Queue.members` tell what this worker says of itself, for as long as it lives.

        Raises FencedOff when this worker was taken for dead.
        """
        ...

    async def settle(
        self, hold: Hold, *, again_at: float | None = None, has_failed: bool = False
    ) -> None:
        """Give lease and slots back; the job is done, or waits until `again_at` (epoch).

        A job that `has_failed` too often waits for a person, as one whose owners die.

        Raises FencedOff when another worker has it by now; nothing is changed then.
        """
        ...

    async def reap(self) -> Sequence[tuple[str, Errand]]:
        """Take from the dead what they owned: their jobs wait again.

        Returns the plans of dead commands, which are no jobs yet, each with what was being done;
        they are returned again until they are put into the queue or claimed. Raises FencedOff when
        this worker itself was taken for dead.
        """
        ...

    async def leave(self, *, is_draining: bool = False) -> None:
        """Take no further jobs; without `is_draining` also be a member no more."""
        ...


__all__ = ["Crew", "Queue"]
