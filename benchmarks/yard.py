"""A home and an engine of its own for a measure, gone afterwards."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from patchyard.assembly import open_equipment
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.engine.equipment import Equipment

__all__ = ["Yard", "opened"]


@dataclass(frozen=True, kw_only=True)
class Yard:
    """Where a measure is taken."""

    folder: Path  # empty, for whatever the measure needs
    person: Path  # an empty home, the user's where `opened` was asked for one
    equipment: Equipment


@asynccontextmanager
async def opened(*, is_nobody: bool = False) -> AsyncIterator[Yard]:
    """Opens an engine; NotImplementedError where the machine has no sandbox to measure.

    `is_nobody`: of a user whose home is empty.
    """
    with tempfile.TemporaryDirectory(prefix="patchyard-bench-") as name:
        folder = Path(name)
        # The agent's user passes through on its way to the workspace.
        await asyncio.to_thread(folder.chmod, 0o711)
        environ = dict(os.environ) | {"PATCHYARD_HOME": str(folder / "home")}
        work, person = folder / "work", folder / "person"
        work.mkdir()
        person.mkdir()
        if is_nobody:
            environ["HOME"] = str(person)
        try:
            async with open_equipment(environ) as equipment:
                yield Yard(folder=work, person=person, equipment=equipment)
        except EnvironmentUnavailable as error:
            raise NotImplementedError(error.message) from error
