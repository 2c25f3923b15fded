"""Tells the others what a worker is and how much it is at: on joining, on change, at each beat."""

import asyncio

from patchyard.domain.announcing import TOPIC, Announcement, Skills
from patchyard.domain.queue import HEARTBEAT_S, Member
from patchyard.engine.equipment import Equipment


class Herald:
    """The voice of one worker: in the database for who looks, on the bus for who listens."""

    def __init__(self, equipment: Equipment, skills: Skills) -> None:
        self._crew = equipment.crew
        self._bus = equipment.bus
        self._skills = skills
        self._member: Member | None = None
        self._said: Announcement | None = None
        self._at = float("-inf")

    def joined(self, member: Member) -> None:
        """Speak for `member` from now on, who is new."""
        self._member, self._said = member, None

    async def announce(self, load: int, *, is_draining: bool = False) -> None:
        """Tell how it is, where that is another than before or a heartbeat ago.

        Raises FencedOff when this worker was taken for dead.
        """
        member, now = self._member, asyncio.get_running_loop().time()
        if member is None:
            return
        said = Announcement(
            member_id=member.member_id,
            worker=member.name,
            skills=self._skills,
            load=load,
            concurrency=member.concurrency,
            is_draining=is_draining,
        )
        if said == self._said and now - self._at < HEARTBEAT_S:
            return
        if said != self._said:
            await self._crew.announce(said)
        self._said, self._at = said, now  # a bus in trouble is tried again at the next beat
        await self._bus.publish(TOPIC, said.data(), sender=member.name)


__all__ = ["Herald"]
