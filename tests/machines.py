"""Saved virtual machines for the homes of all tests: they are made once a session."""

import asyncio
import atexit
import functools
import shutil
import tempfile
import threading
from pathlib import Path

from patchyard.clients.berths import Station
from patchyard.clients.clock import SystemClock
from patchyard.environments.vm import VmEnvironment
from services import kernel_folder

__all__ = ["lend"]


@functools.cache
def _saved() -> Path:
    """A folder of saved machines with the memory that specs have by default."""
    folder = Path(tempfile.mkdtemp(prefix="patchyard-machines-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    station = Station(runtime=folder, new_id=SystemClock().new_id, machine_image=kernel_folder())
    adapter = VmEnvironment(station)
    making = threading.Thread(target=lambda: asyncio.run(adapter.programs("/srv/shop")))
    making.start()  # of its own: the test's loop may run
    making.join()
    return folder / "toolbox" / "vm"


def lend(run: Path) -> None:
    """Let the environments of the runtime folder `run` begin with them."""
    place = run / "toolbox" / "vm"
    if not place.is_symlink():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(_saved())
