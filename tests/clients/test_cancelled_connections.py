"""A connection that is given up while its configuration is still being copied."""

import asyncio
import tempfile
import threading
from pathlib import Path

import pytest

from laboratory import bytes_below
from patchyard.clients import ssh

pytestmark = pytest.mark.anyio


async def test_copies_of_the_configuration_are_deleted_once_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    written: list[Path] = []

    def slow(*_: object) -> list[str]:
        (folder,) = tmp_path.glob("patchyard-ssh-*")
        begun.set()
        goes_on.wait(60)
        copy = folder / "0.config"
        copy.write_text("")
        written.append(copy)
        return []

    monkeypatch.setattr(ssh, "_configs", slow)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    task = asyncio.create_task(ssh.connect("nobody@127.0.0.1:1", str(tmp_path)))
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    asyncio.get_running_loop().call_later(0.1, goes_on.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [copy.name for copy in written] == ["0.config"]
    assert bytes_below(tmp_path) == {}
