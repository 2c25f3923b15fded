"""The queue in the journal's own file: jobs, the lanes they wait in, the slots they take."""

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from patchyard.contracts.claims import Hold
from patchyard.contracts.clock import Clock
from patchyard.domain.announcing import Announcement, takes
from patchyard.domain.errors import FencedOff, JournalBroken, NameTaken
from patchyard.domain.queue import DEATHS, Errand, Job, Lease, Limits, Member, next_job, scopes_of
from patchyard.engine.enduring import Enduring
from patchyard.stores import leasing
from patchyard.stores.database import RESTORE
from patchyard.stores.membership import Held, Membership

JOB = "job, errand, project, model, role, priority, not_before, every_s, queued, number, deaths"
KINDS = {  # of what a job's row holds, as SQLite returns it
    **dict.fromkeys(("job", "errand", "project", "model", "role"), (str,)),
    **dict.fromkeys(("priority", "number", "deaths"), (int,)),
    **dict.fromkeys(("not_before", "every_s", "queued"), (int, float)),
}
HEAD = (
    f"SELECT {JOB} FROM jobs WHERE project = ? AND model = ? AND role = ? AND member IS NULL"  # noqa: S608 - ours
    " AND not_before <= ? AND deaths < ? AND NOT EXISTS"
    " (SELECT 1 FROM leases WHERE leases.job = jobs.job AND leases.member IS NOT NULL)"
    " ORDER BY priority DESC, number"
)
DUE = "SELECT 1 FROM jobs WHERE member IS NULL AND not_before <= ? AND deaths < ? LIMIT 1"
DUE_IN_LANE = (
    "SELECT 1 FROM lanes WHERE role IN ({}) AND EXISTS (SELECT 1 FROM jobs"
    " WHERE jobs.project = lanes.project AND jobs.model = lanes.model AND jobs.role = lanes.role"
    " AND member IS NULL AND not_before <= ? AND deaths < ?) LIMIT 1"
)
ORPHAN = "SELECT 1 FROM leases WHERE job = ? AND member IS NULL AND errand <> ''"
USED = "SELECT 1 FROM jobs WHERE project = ? AND model = ? AND role = ? LIMIT 1"


Lane = tuple[str, str, str]  # project, model, role


class SQLiteQueue:
    """contracts.queue.Queue and Crew over the tables of SQLiteJournal."""

    def __init__(self, membership: Membership, clock: Clock) -> None:
        self._membership = membership
        self._journal = membership.journal
        self._clock = clock
        self._endures = Enduring()

    async def put(self, job: Job) -> None:
        """See contracts.queue.Queue."""
        await self._journal.within(lambda connection: _put(connection, job, self._clock.now()))

    async def adopt(self, job: Job) -> None:
        """See contracts.queue.Queue."""

        def adopt(connection: sqlite3.Connection) -> None:
            if connection.execute(ORPHAN, (job.job_id,)).fetchone() is not None:
                _put(connection, job, self._clock.now())

        await self._journal.within(adopt)

    async def withdraw(self, job_id: str) -> None:
        """See contracts.queue.Queue."""

        def withdraw(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM jobs WHERE job = ?", (job_id,))
            connection.execute("UPDATE leases SET errand = '' WHERE job = ?", (job_id,))

        await self._journal.within(withdraw)

    async def jobs(self) -> Sequence[tuple[Job, str | None]]:
        """See contracts.queue.Queue."""
        rows = await self._journal.look(
            lambda connection: connection.execute(
                f"SELECT {JOB}, (SELECT name FROM members WHERE members.member = jobs.member)"  # noqa: S608 - ours
                " FROM jobs ORDER BY number"
            ).fetchall()
        )
        return [(job, row[-1]) for row in rows if (job := self._sound(row)) is not None]

    async def members(self) -> Sequence[Member]:
        """See contracts.queue.Queue."""
        found = await self._journal.look(leasing.members)
        return [member for member in found if not self._membership.is_dead(member)]

    async def join(self, name: str, concurrency: int) -> Member:
        """See contracts.queue.Crew."""
        membership = self._membership
        before = membership.member.member_id
        membership.become(name, concurrency=concurrency)

        def join(connection: sqlite3.Connection) -> None:
            for own in leasing.members(connection, "member = ?", before):
                leasing.bury(connection, own)
            for other in leasing.members(connection, "name = ? AND concurrency > 0", name):
                if not membership.is_dead(other):
                    raise NameTaken(f"there is a worker {name} already ({other.shown})")
                leasing.bury(connection, other)
            membership.enter(connection)

        await self._journal.within(join)
        membership.live()
        return membership.member

    async def claim(
        self, room: int, limits: Limits, *, roles: Collection[str] = ()
    ) -> Sequence[tuple[Hold, Job]]:
        """See contracts.queue.Crew."""
        if room <= 0 or not await self._journal.look(lambda known: self._is_due(known, roles)):
            return ()
        taken = await self._journal.within(
            lambda connection: list(self._taken(connection, room, limits, roles))
        )
        return [(Held(self._membership, lease), job) for lease, job in taken]

    def _is_due(self, connection: sqlite3.Connection, roles: Collection[str]) -> bool:
        """Whether a look at the lanes may be worth a synced write."""
        named = ("", *roles) if roles else ()
        due = DUE_IN_LANE.format(", ".join("?" * len(named))) if roles else DUE
        found = connection.execute(due, (*named, self._clock.now(), DEATHS)).fetchone()
        return found is not None

    async def announce(self, said: Announcement) -> None:
        """See contracts.queue.Crew."""
        await self._journal.within(lambda connection: leasing.announce(connection, said))

    def _taken(
        self,
        connection: sqlite3.Connection,
        room: int,
        limits: Limits,
        roles: Collection[str],
    ) -> Iterator[tuple[Lease, Job]]:
        member = self._membership.member
        self._membership.enter(connection)
        now = self._clock.now()
        taken = dict(connection.execute("SELECT scope, count(*) FROM slots GROUP BY scope"))
        heads = self._heads(connection, now, roles)
        for _ in range(room):
            job = next_job(list(heads.values()), taken, limits, worker=member.name)
            if job is None:
                return
            yield _take(connection, job, member), job
            for scope in scopes_of(job, member.name):
                taken[scope] = taken.get(scope, 0) + 1
            self._serve(connection, heads, job, now)

    async def settle(
        self, hold: Hold, *, again_at: float | None = None, has_failed: bool = False
    ) -> None:
        """See contracts.queue.Crew."""
        lease = hold.lease

        def settle(connection: sqlite3.Connection) -> None:
            if not leasing.give_back(connection, lease, is_done=True):
                raise FencedOff
            if again_at is None:
                connection.execute("DELETE FROM jobs WHERE job = ?", (lease.job_id,))
            else:
                connection.execute(
                    "UPDATE jobs SET member = NULL, not_before = ?,"
                    " deaths = CASE WHEN ? THEN deaths + 1 ELSE 0 END WHERE job = ?",
                    (again_at, has_failed, lease.job_id),
                )

        await self._journal.within(settle)
        self._membership.is_over(lease.job_id)

    async def reap(self) -> Sequence[tuple[str, Errand]]:
        """See contracts.queue.Crew."""
        found = await self._journal.look(leasing.members)
        own = self._membership.member.member_id
        if own not in {each.member_id for each in found}:
            raise FencedOff
        dead = [each for each in found if each.member_id != own and self._membership.is_dead(each)]
        if dead:
            await self._journal.within(lambda connection: self._bury(connection, dead))
        orphans = await self._journal.look(
            lambda connection: connection.execute(
                "SELECT job, errand FROM leases WHERE member IS NULL AND errand <> '' ORDER BY job"
            ).fetchall()
        )
        return [
            (job_id, errand)
            for job_id, said in orphans
            if (errand := self._errand(job_id, said)) is not None
        ]

    def _errand(self, job_id: str, said: object) -> Errand | None:
        """Return what an owner was at; None, and it is told, where the row is damaged."""
        with self._endures.passing(f"the lease of {job_id}"):
            return Errand(str(said))
        return None

    def _sound(self, row: tuple[object, ...]) -> Job | None:
        """Return the job of a row; None, and it is told, where the row is damaged.

        Such a job waits on: it neither is taken nor hides the others.
        """
        with self._endures.passing(f"the job {row[0]!s} of the queue"):
            return _job(row)
        return None

    def _heads(
        self, connection: sqlite3.Connection, now: float, roles: Collection[str]
    ) -> dict[Lane, tuple[Job, int]]:
        """Return the first due job of each lane of these roles, and when it was last served."""
        heads: dict[Lane, tuple[Job, int]] = {}
        lanes = connection.execute("SELECT project, model, role, served FROM lanes").fetchall()
        for *parts, served in lanes:
            lane: Lane = (parts[0], parts[1], parts[2])
            if not takes(roles, lane[2]):
                continue
            head = self._head(connection, lane, now)
            if head is not None:
                heads[lane] = (head, served)
            elif connection.execute(USED, lane).fetchone() is None:
                connection.execute(
                    "DELETE FROM lanes WHERE project = ? AND model = ? AND role = ?", lane
                )
        return heads

    def _head(self, connection: sqlite3.Connection, lane: Lane, now: float) -> Job | None:
        for row in connection.execute(HEAD, (*lane, now, DEATHS)):
            if (job := self._sound(row)) is not None:
                return job
        return None

    def _serve(
        self,
        connection: sqlite3.Connection,
        heads: dict[Lane, tuple[Job, int]],
        job: Job,
        now: float,
    ) -> None:
        """Let the project of `job` be the one served last, and the next of its lane be the head."""
        (tick,) = connection.execute("SELECT coalesce(max(served), 0) + 1 FROM lanes").fetchone()
        connection.execute("UPDATE lanes SET served = ? WHERE project = ?", (tick, job.project))
        for lane, (head, _) in list(heads.items()):
            if lane[0] == job.project:
                heads[lane] = (head, tick)
        lane = _lane(job)
        following = self._head(connection, lane, now)
        if following is None:
            del heads[lane]
        else:
            heads[lane] = (following, tick)

    def _bury(self, connection: sqlite3.Connection, dead: Sequence[Member]) -> None:
        for each in dead:
            for known in leasing.members(connection, "member = ?", each.member_id):
                if self._membership.is_dead(known):  # still so, now that nobody else writes
                    leasing.bury(connection, known)

    async def leave(self, *, is_draining: bool = False) -> None:
        """See contracts.queue.Crew."""
        member_id = self._membership.member.member_id

        def leave(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE members SET is_draining = 1 WHERE member = ?", (member_id,))
            if not is_draining:
                for member in leasing.members(connection, "member = ?", member_id):
                    leasing.bury(connection, member)

        await self._journal.within(leave)
        if not is_draining:
            self._membership.rest()


def _put(connection: sqlite3.Connection, job: Job, now: float) -> None:
    connection.execute(
        "INSERT INTO jobs (job, errand, project, model, role, priority, not_before, every_s,"
        " queued) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job) DO NOTHING",
        (
            *(job.job_id, job.errand, job.project, job.model, job.role, job.priority),
            *(job.not_before, job.every_s, job.queued or now),
        ),
    )
    connection.execute(
        "INSERT OR IGNORE INTO lanes (project, model, role) VALUES (?, ?, ?)", _lane(job)
    )
    connection.execute(
        "UPDATE leases SET errand = '' WHERE job = ? AND member IS NULL", (job.job_id,)
    )


def _lane(job: Job) -> Lane:
    return job.project, job.model, job.role


def _take(connection: sqlite3.Connection, job: Job, member: Member) -> Lease:
    generation = leasing.grant(connection, job.job_id, member.member_id, Errand.NONE)
    connection.execute(
        "UPDATE jobs SET member = ? WHERE number = ?", (member.member_id, job.number)
    )
    connection.executemany(
        "INSERT OR IGNORE INTO slots VALUES (?, ?)",
        [(scope, job.job_id) for scope in scopes_of(job, member.name)],
    )
    return Lease(
        job_id=job.job_id, member_id=member.member_id, generation=generation, worker=member.name
    )


def _job(row: tuple[object, ...]) -> Job:
    """Return the job of a row. Raises JournalBroken where a value is none that we write."""
    values: Mapping[str, Any] = dict(zip(JOB.split(", "), row, strict=False))
    kinds = {name: type(value) for name, value in values.items()}
    try:
        errand = Errand(str(values["errand"]))
    except ValueError as error:
        raise JournalBroken("it is damaged", hint=RESTORE) from error
    if any(kinds[name] not in kind for name, kind in KINDS.items()):
        raise JournalBroken("it is damaged", hint=RESTORE)
    rest = {name: value for name, value in values.items() if name not in {"job", "errand"}}
    return Job(**rest, job_id=values["job"], errand=errand)


__all__ = ["SQLiteQueue"]
