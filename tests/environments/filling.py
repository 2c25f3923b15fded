"""Small disks to fill: here, on a host, in a machine."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from environments.yards import Running
from patchyard.clients.mounts import unmount
from patchyard.domain.errors import EnvironmentBroken

__all__ = ["FULL", "full_and_on", "small"]


def _enlarge(place: Path, megabytes: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={megabytes}m", str(place)], check=True)


@contextmanager
def small(place: Path, megabytes: int) -> Iterator[Callable[[int], None]]:
    """A disk of some megabytes at `place`; yields what makes it larger."""
    owner = place.stat()
    options = f"size={megabytes}m,mode=755,uid={owner.st_uid},gid={owner.st_gid}"
    mount = ["mount", "-t", "tmpfs", "-o"]
    subprocess.run([*mount, options, "small", str(place)], check=True)
    try:
        yield lambda more: _enlarge(place, more)
    finally:
        unmount(place)


FULL = "head -c 3000000 /dev/zero > big"


async def full_and_on(
    running: Running, fill: str = FULL, clear: str = "rm big", *, cure: str = ""
) -> None:
    """Fill the disk there; it is a result of commands and tools, and work goes on with room.

    `cure` is told where the workspace is a copy, of a change that does not get in.
    """
    full = await running.result(fill)
    assert full["exit_code"] != 0
    assert "No space left on device" in full["stderr"]
    file = {"path": "more.txt", "content": "x" * 1_000_000}
    written = await running.toolbox.call("01MORE", "write_file", file)
    assert (written["success"], written["error"]) == (False, "NO_SPACE")
    if cure:
        change = Path(running.handle.details["source"], "change")
        await asyncio.to_thread(change.write_bytes, os.urandom(1_000_000))
        with pytest.raises(EnvironmentBroken, match="No space left") as refused:
            await running.run("true")
        assert refused.value.hint is not None
        assert cure in refused.value.hint
        await asyncio.to_thread(change.unlink)
    assert await running.run(f"{clear}; echo room > small.txt; cat small.txt") == "room"
