"""The environments of this installation that are still there in some way, for the janitor."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from patchyard.clients.belonging import is_own
from patchyard.clients.berths import FOLDER, Station, berth_directory, read_note, write_adoption
from patchyard.clients.freezing import is_frozen
from patchyard.clients.removal import size_of
from patchyard.clients.vitals import answers
from patchyard.contracts.environment import Environment
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment
from patchyard.domain.ids import is_ulid
from patchyard.domain.retention import Family, Found


class EnvironmentKeeper:
    """contracts.leftovers.Keeper over the folders that environments are reached through."""

    family = Family.ENVIRONMENT

    def __init__(
        self, station: Station, environments: Mapping[ExecutionEnvironment, Environment]
    ) -> None:
        self._station = station
        self._environments = environments

    async def found(self) -> Sequence[Found]:
        """See contracts.leftovers.Keeper."""
        return await asyncio.to_thread(self._found)

    async def found_of(self, plan_id: str, *, besides: Collection[str] = ()) -> Sequence[Found]:
        """See contracts.leftovers.OfPlans."""
        return await asyncio.to_thread(self._found, plan_id, besides)

    async def adopt(self, handle: EnvironmentHandle, plan_id: str) -> None:
        """See contracts.leftovers.Adopting."""
        directory = berth_directory(self._station, handle.environment_id)
        write_adoption(directory, handle, plan_id=plan_id)  # a few bytes: a thread takes longer

    def _found(self, plan_id: str | None = None, besides: Collection[str] = ()) -> Sequence[Found]:
        """Look at those of one plan, or at all."""
        runtime = self._station.runtime
        try:
            names = sorted(filter(is_ulid, (place.name for place in runtime.iterdir())))
        except FileNotFoundError:
            return []
        seen = (
            _one(self._station, runtime / name, plan_id) for name in names if name not in besides
        )
        return [each for each in seen if each is not None]

    async def size(self, found: Found) -> int:
        """See contracts.leftovers.Keeper."""
        return await asyncio.to_thread(size_of, Path(found.place))

    async def give_back(self, found: Found, *, unused_since: float) -> bool:
        """End it with all that runs there; see contracts.leftovers.Keeper."""
        seen = await asyncio.to_thread(_seen_again, Path(found.place))
        if seen is None:
            return True
        used, handle = seen
        if used > unused_since:  # a plan was given it meanwhile
            return False
        await self._environments[handle.kind].end(handle)
        return True


def _one(station: Station, berth: Path, wanted: str | None) -> Found | None:
    """Return what is known of one.

    None when it is not of the plan that is wanted, or its own engine has removed it meanwhile.
    """
    plan_id, handle = _noted(berth)
    if wanted is not None and plan_id != wanted:
        return None
    is_copy = FOLDER in handle.details and not is_own(station, handle)
    try:
        return Found(
            family=Family.ENVIRONMENT,
            name=berth.name,
            place=str(berth),
            plan_id=plan_id,
            resource=handle.resource,
            used=berth.stat().st_mtime,
            is_copy=is_copy,
            is_live=not is_copy
            and not _stands_still(handle)
            and any(answers(path) for path in berth.iterdir() if path.is_socket()),
        )
    except FileNotFoundError:
        return None


def _seen_again(berth: Path) -> tuple[float, EnvironmentHandle] | None:
    """Return when something was last noted there and how to end it; None: it is gone."""
    try:
        return berth.stat().st_mtime, _noted(berth)[1]
    except FileNotFoundError:
        return None


def _stands_still(handle: EnvironmentHandle) -> bool:
    """Whether it is frozen, as an engine that was killed over a checkpoint leaves it: for good.

    Of one that lives the plan is owned, and nobody else looks at its things.
    """
    return is_frozen(tuple(str(place) for place in handle.details.get("group", ())))


def _noted(berth: Path) -> tuple[str, EnvironmentHandle]:
    """Return the plan and how to end it; of one killed at its very start there is but a folder."""
    noted = read_note(berth)
    if noted is not None:
        return noted[0], replace(noted[1], environment_id=berth.name)
    kind = ExecutionEnvironment.PROCESS
    return "", EnvironmentHandle(environment_id=berth.name, kind=kind, workspace_path="")


__all__ = ["EnvironmentKeeper"]
