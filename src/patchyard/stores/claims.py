"""Claims by leases in the journal's own file: one that was taken away cannot write there."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from patchyard.contracts.claims import Hold
from patchyard.domain.errors import Conflict, PatchyardError
from patchyard.domain.queue import Errand, Lease, Member
from patchyard.stores import leasing
from patchyard.stores.membership import Held, Membership


class LeaseClaims:
    """contracts.claims.Claims over the tables of SQLiteJournal."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership

    @asynccontextmanager
    async def claim(self, plan_id: str, *, errand: Errand = Errand.NONE) -> AsyncIterator[Hold]:
        """See contracts.claims.Claims."""
        membership = self._membership
        journal = membership.journal
        lease = await journal.within(lambda connection: self._take(connection, plan_id, errand))
        membership.live()
        try:
            yield Held(membership, lease)
        finally:
            with suppress(PatchyardError):  # a lease that stays ends with this process
                await self._release(lease, errand)

    async def _release(self, lease: Lease, errand: Errand) -> None:
        membership = self._membership

        def release(connection: sqlite3.Connection) -> bool:
            leasing.give_back(connection, lease, is_done=bool(errand))
            return not is_worker and leasing.dismiss(connection, lease.member_id)

        is_worker = membership.member.is_worker
        membership.is_over(lease.job_id)
        if await membership.journal.within(release):
            membership.rest()

    def _take(self, connection: sqlite3.Connection, plan_id: str, errand: Errand) -> Lease:
        owner = leasing.owner_of(connection, plan_id)
        if owner is not None and not self._membership.is_dead(owner):
            raise Conflict(
                f"plan {plan_id} is being worked on by another process ({owner.shown})",
                hint=f"follow it with `agents plan watch {plan_id}`, or stop it with"
                f" `agents plan cancel {plan_id}`",
            )
        if owner is not None:
            leasing.bury(connection, owner)
        self._membership.enter(connection)
        member_id = self._membership.member.member_id
        generation = leasing.grant(connection, plan_id, member_id, errand)
        if errand:  # done here and now: it need not wait for a worker any more
            connection.execute("DELETE FROM jobs WHERE job = ?", (plan_id,))
        return Lease(job_id=plan_id, member_id=member_id, generation=generation)

    async def holder(self, plan_id: str) -> Member | None:
        """See contracts.claims.Claims."""
        owner = await self._membership.journal.look(
            lambda connection: leasing.owner_of(connection, plan_id)
        )
        return None if owner is None or self._membership.is_dead(owner) else owner


__all__ = ["LeaseClaims"]
