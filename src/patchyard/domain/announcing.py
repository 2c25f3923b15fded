"""What workers tell the others of themselves, and whose plans they take. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

TOPIC = "workers"  # of the bus


@dataclass(frozen=True, kw_only=True)
class Skills:
    """What a worker can do; fixed when it starts."""

    roles: tuple[str, ...] = ()  # whose plans it takes
    takes_all: bool = True  # plans of other roles too
    capabilities: tuple[str, ...] = ()  # of its roles
    expertise: tuple[str, ...] = ()  # likewise
    version: str = ""  # of Patchyard


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """One worker as it says that it is."""

    member_id: str
    worker: str  # its name
    skills: Skills
    load: int = 0  # plans that it is at
    concurrency: int = 0  # at most
    is_draining: bool = False

    def data(self) -> dict[str, Any]:
        """Return it for programs, every field."""
        return {
            "id": self.member_id,
            "worker": self.worker,
            "roles": list(self.skills.roles),
            "takes_all": self.skills.takes_all,
            "capabilities": list(self.skills.capabilities),
            "expertise": list(self.skills.expertise),
            "version": self.skills.version,
            "load": self.load,
            "concurrency": self.concurrency,
            "is_draining": self.is_draining,
        }


def announcement_of(data: Mapping[str, Any]) -> Announcement:
    """Return what `Announcement.data` gave. Raises KeyError, TypeError, ValueError."""
    return Announcement(
        member_id=str(data["id"]),
        worker=str(data["worker"]),
        skills=Skills(
            roles=tuple(map(str, data["roles"])),
            takes_all=bool(data["takes_all"]),
            capabilities=tuple(map(str, data["capabilities"])),
            expertise=tuple(map(str, data["expertise"])),
            version=str(data["version"]),
        ),
        load=int(data["load"]),
        concurrency=int(data["concurrency"]),
        is_draining=bool(data["is_draining"]),
    )


def takes(roles: Collection[str], role: str) -> bool:
    """Whether a worker that is there for `roles` (empty: all) takes a job of `role`.

    What is of no role, a chore or a job of an older version, is anybody's.
    """
    return not roles or not role or role in roles


__all__ = ["TOPIC", "Announcement", "Skills", "announcement_of", "takes"]
