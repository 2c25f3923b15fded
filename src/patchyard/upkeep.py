"""How long this installation keeps things, and a pass of the janitor by itself."""

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from patchyard.config import places
from patchyard.configuration import user_layers, variable_layers
from patchyard.domain.keeping import Rules, rules_of
from patchyard.engine.enduring import Enduring
from patchyard.engine.equipment import Equipment
from patchyard.engine.janitor import Janitor

MARK = "swept"  # in the home, dated when the last pass came to its end
EVERY_S = 3600.0
OPENED = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

Told = Callable[[str], None]


def rules(environ: Mapping[str, str]) -> Rules:
    """Return what variables and the user's file say; a repository has no say in it.

    Raises UsageError with file, line and column.
    """
    layers = [*variable_layers(environ), *user_layers(environ)]
    return rules_of([layer.settings.keep for layer in layers if layer.settings.keep is not None])


@asynccontextmanager
async def tidied(
    equipment: Equipment, environ: Mapping[str, str], *, told: Told
) -> AsyncIterator[None]:
    """Let the janitor pass beside what is done in the block, when its time has come.

    One process at a time does. What is in its way is `told` and stops nothing; when the block ends
    earlier, a later pass goes on.
    """
    with _due(places(environ).home / MARK, told) as mark:
        if mark is None:
            yield
            return
        work = asyncio.ensure_future(_pass(equipment, environ, mark, told))
        try:
            yield
        finally:
            work.cancel()
            await asyncio.wait([work])


async def _pass(equipment: Equipment, environ: Mapping[str, str], mark: int, told: Told) -> None:
    endures = Enduring(lambda said: told(f"{said}; `agents gc` says more"))
    with endures.passing("the janitor came to no end") as passing:
        sweep = await Janitor(equipment, kept=rules(environ).retention, weighs=False).sweep()
    if passing.error is not None:
        return
    stuck = [each for each in sweep.things if each.obstacle]
    if stuck:
        told(f"the janitor could not return everything: {stuck[0].obstacle}; see `agents gc`")
    os.utime(mark)


@contextlib.contextmanager
def _due(path: Path, told: Told) -> Iterator[int | None]:
    """Yield a descriptor to be dated after a pass; None when none is due, or another is at it.

    In a new home there is nothing to return yet. A file that cannot be opened is `told`.
    """
    is_new = not path.exists()
    try:
        descriptor = os.open(path, OPENED, 0o600)
    except OSError as error:
        told(f"the janitor did not begin: {error}; move that away, or give it to this user")
        yield None
        return
    try:
        age = abs(time.time() - os.fstat(descriptor).st_mtime)  # a clock set back counts as well
        is_due = not is_new and age >= EVERY_S and _is_ours(descriptor)
        yield descriptor if is_due else None
    finally:
        os.close(descriptor)


def _is_ours(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


__all__ = ["EVERY_S", "MARK", "Told", "rules", "tidied"]
