"""What virtual machines begin with is made beside the engine's loop, which other plans need."""

import asyncio
import threading
from pathlib import Path

import pytest

from patchyard.clients import machine_templates
from patchyard.clients.identity import agent_identity
from patchyard.clients.machine_templates import Templates
from patchyard.domain.errors import EnvironmentUnavailable

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


class Slow:
    """A disk that is filled once others had their turn."""

    digest, said = "slow", "slow"

    def __init__(self) -> None:
        self.begun, self.goes_on = threading.Event(), threading.Event()

    def fill(self, folder: Path) -> None:
        """Wait, then fail."""
        del folder
        self.begun.set()
        assert self.goes_on.wait()
        raise EnvironmentUnavailable("it cannot be filled")


async def test_a_disk_is_filled_while_the_loop_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    monkeypatch.setattr(machine_templates, "disk_of", lambda _: slow)
    monkeypatch.setattr(machine_templates, "find_qemu", lambda: None)
    monkeypatch.setattr(machine_templates, "kernel_for", lambda _: None)
    templates = Templates(tmp_path / "vm", tmp_path / "shelf")
    made = asyncio.create_task(
        templates.template("", memory_mib=256, cpus=1, identity=agent_identity())
    )
    await asyncio.to_thread(slow.begun.wait)
    slow.goes_on.set()
    with pytest.raises(EnvironmentUnavailable, match="cannot be filled"):
        await made
    assert not list((tmp_path / "vm").glob("disk-*"))
