"""Queues to test, each with as many members as a test wants, and a clock that the test sets on."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from patchyard.clients.clock import SystemClock
from patchyard.contracts.claims import Hold
from patchyard.contracts.queue import Crew, Queue
from patchyard.domain.queue import Job, Limits
from patchyard.stores.claims import LeaseClaims
from patchyard.stores.membership import Heart, Membership
from patchyard.stores.queue import SQLiteQueue
from patchyard.stores.sqlite import SQLiteJournal

__all__ = ["HALLS", "Hall", "Post", "SQLiteHall", "job"]


class SetClock(SystemClock):
    """One clock for all members of a hall; it goes on when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 1000.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds


class StillMembership(Membership):
    """A membership whose heart beats when the test says so."""

    def live(self) -> None:
        if self._heart is None:
            self._heart = Heart(self._path, self._member.member_id, self._clock)


@dataclass(kw_only=True)
class Post:
    """One process at the queue."""

    journal: SQLiteJournal
    queue: Queue
    crew: Crew
    claims: LeaseClaims
    membership: Membership

    async def take(
        self, room: int = 1, limits: Limits | None = None, *, roles: Collection[str] = ()
    ) -> list[tuple[Hold, str]]:
        """Claim, and return the ids of the jobs."""
        taken = await self.crew.claim(room, limits or Limits(), roles=roles)
        return [(hold, each.job_id) for hold, each in taken]

    async def beat(self) -> None:
        """Give a sign of life now."""
        await self.journal.within(self.membership.enter)


@dataclass(kw_only=True)
class SQLiteHall:
    """The embedded queue."""

    folder: Path
    clock: SetClock = field(default_factory=SetClock)
    posts: list[Post] = field(default_factory=list)

    async def post(self, name: str = "", concurrency: int = 1) -> Post:
        """Open a process at the queue; with a name it is a worker."""
        path = self.folder / "patchyard.db"
        journal = SQLiteJournal.open(path)
        membership = StillMembership(journal, path, self.clock)
        queue = SQLiteQueue(membership, self.clock)
        claims = LeaseClaims(membership)
        made = Post(journal=journal, queue=queue, crew=queue, claims=claims, membership=membership)
        self.posts.append(made)
        if name:
            await made.crew.join(name, concurrency)
        return made

    async def close(self) -> None:
        """Close all that was opened."""
        for each in self.posts:
            each.membership.rest()
            await each.journal.close()


Hall = SQLiteHall
HALLS = {"sqlite": SQLiteHall}


def job(
    job_id: str, *, project: str = "p", model: str = "m", role: str = "", priority: int = 0
) -> Job:
    """A job that is due."""
    return Job(job_id=job_id, project=project, model=model, role=role, priority=priority)
