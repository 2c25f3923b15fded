"""Checkpoints where the store, the disk or the agent's tree makes trouble."""

import errno
import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from depths import deepened
from keeping import everything, kept, own
from laboratory import Lab
from patchyard.contracts.workspace import LookStopped
from patchyard.domain.errors import Unavailable
from patchyard.stores.blobs import CHUNK_BYTES, Writer
from patchyard.stores.packs import Pack
from patchyard.workspaces import survey

pytestmark = pytest.mark.anyio


async def test_a_store_without_room_keeps_nothing_and_says_so(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, root = await kept(lab)
    before = dict(keeper.manifest)
    (root / "deep").mkdir()
    (root / "deep/more.txt").write_text("more\n")
    own(root)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Pack, "append", full)
        with pytest.raises(Unavailable, match="no room for a checkpoint"):
            await keeper.keep()
    assert keeper.manifest == before
    await keeper.keep()
    assert "deep/more.txt" in keeper.manifest


async def test_of_a_file_that_grows_while_it_is_kept_no_more_is_kept_than_was_seen(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, root = await kept(lab)
    log = root / "log"
    log.write_bytes(b"seen")
    own(root)
    keep = Writer.keep

    def growing(writer: Writer, source: int, **further: Any) -> str:
        if os.fstat(source).st_size == len(b"seen"):
            with log.open("ab") as file:
                file.write(os.urandom(3 * CHUNK_BYTES))
        return keep(writer, source, **further)

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "keep", growing)
        delta = await keeper.keep()
    assert delta.stored < CHUNK_BYTES
    assert (delta.is_fuzzy, delta.put["log"].size) == (True, len(b"seen"))
    assert delta.put["log"].digest == hashlib.sha256(b"seen").hexdigest()
    assert (await keeper.keep()).stored == 4 + 3 * CHUNK_BYTES


async def test_what_cannot_be_read_is_not_kept_and_not_gone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, root = await kept(lab)
    (root / "new.txt").write_text("new\n")
    (root / "folder").mkdir()
    own(root)
    await keeper.keep()
    (root / "new.txt").write_text("newer\n")
    (root / "folder/inner").write_text("inner\n")
    own(root)

    def closed(*_: object) -> None:
        raise PermissionError(errno.EACCES, "not for us")

    with monkeypatch.context() as patched:
        patched.setattr(survey.Survey, "_file", closed)
        delta = await keeper.keep()

    assert delta.is_fuzzy
    assert delta.gone == []
    assert keeper.manifest["new.txt"].is_lacking
    await keeper.keep()
    assert not keeper.manifest["new.txt"].is_lacking


def deleted(*folders: Path) -> None:
    """Delete folders that are too deep for pytest."""
    subprocess.run(["rm", "-rf", *folders], check=True)


async def test_folders_deeper_than_any_stack_are_left_out(lab: Lab) -> None:
    keeper, root = await kept(lab)
    (root / "build").mkdir(exist_ok=True)
    for start in (root, root / "build"):
        deepened(start, 1500, "x")
    delta = await keeper.keep()
    assert delta.is_fuzzy
    await keeper.restore(dict(keeper.manifest))
    deleted(root / "x", root / "build")


async def test_files_come_back_between_two_file_systems(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, root = await kept(lab)
    before, first = everything(root), dict(keeper.manifest)
    (root / "a.txt").write_text("changed\n")
    own(root)

    def across(*_: object) -> int:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "copy_file_range", across)
    await keeper.restore(first)
    assert everything(root) == before


async def test_a_file_of_many_names_is_read_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, root = await kept(lab)
    (root / "first").write_text("the same\n")
    for number in range(20):
        (root / f"name-{number}").hardlink_to(root / "first")
    own(root)
    read: list[int] = []
    keep = Writer.keep

    def counted(writer: Writer, source: int, **further: Any) -> str:
        read.append(os.fstat(source).st_nlink)
        return keep(writer, source, **further)

    monkeypatch.setattr(Writer, "keep", counted)
    await keeper.keep()
    assert read.count(21) == 1


async def test_a_look_that_nobody_wants_ends_within_a_large_file(lab: Lab) -> None:
    keeper, root = await kept(lab)
    (root / "large").write_bytes(os.urandom(40 * CHUNK_BYTES))
    own(root)
    space = lab.repo.parent / "blobs" / keeper.ref.workspace_id

    def is_stopped() -> bool:  # as soon as some of the file is written
        return any(place.stat().st_size for place in space.glob(".*"))

    with pytest.raises(LookStopped):
        await keeper.workspaces.checkpoint(
            keeper.base, keeper.ref, keeper.manifest, blobs=keeper.blobs, is_stopped=is_stopped
        )
    assert keeper.blobs.size < CHUNK_BYTES  # nothing of it stays


async def test_a_look_that_nobody_wants_ends_before_the_next_file(lab: Lab) -> None:
    keeper, root = await kept(lab)
    for number in range(20):
        (root / f"new-{number}").write_text(f"{number}\n")
    own(root)
    asked: list[bool] = []

    def is_stopped() -> bool:
        asked.append(True)
        return len(asked) > 3

    with pytest.raises(LookStopped):
        await keeper.workspaces.checkpoint(
            keeper.base, keeper.ref, keeper.manifest, blobs=keeper.blobs, is_stopped=is_stopped
        )
    assert len(asked) == 4
    await keeper.keep()
    assert "new-19" in keeper.manifest
