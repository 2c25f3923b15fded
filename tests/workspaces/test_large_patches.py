"""Patches of files of any size: git applies them, both ways, and neither git nor we hold a file."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handovers import order
from laboratory import Lab, bytes_below, git, started
from patchyard.clients import git as git_client
from patchyard.contracts.trees import whole
from patchyard.domain.changeset import ChangeStatus
from patchyard.domain.codec import to_json
from patchyard.domain.errors import Unavailable, WorkFailed
from patchyard.workspaces import patch_pieces
from patchyard.workspaces.pinned import GitTrees

pytestmark = pytest.mark.anyio
LARGE = 4 * 1024 * 1024  # of a file whose lines are not told apart
NOISE = random.Random(7).randbytes(LARGE)


def delete_objects(store: Path) -> None:
    for place in store.glob("objects/*/*"):
        if place.is_file():
            place.unlink()


async def test_large_texts_and_binaries_are_applied_and_taken_back_by_git(
    lab: Lab, tmp_path: Path
) -> None:
    text = "line\n" * (LARGE // 5)
    lab.write(
        {"text": text, "gone": text[1:], "small": "a\n", "tool": b"\0" + NOISE, "linked": text[2:]}
    )
    base = await started(lab)
    ref, root = await lab.workspace(base)
    (root / "text").write_text(f"{text}end")
    (root / "gone").unlink()
    (root / "small").write_bytes(
        b"Binary files a/x and b/x differ\n\nindex 12..34\nx\rBinary files a and b differ\r\n"
    )
    (root / "tool").write_bytes(NOISE[1:] + b"\0\0")
    (root / "tool").chmod(0o755)
    (root / 'new "name"\nhere').write_bytes(NOISE[:-3])
    (root / "few").write_bytes(b"\0\1\2")
    (root / "linked").unlink()
    (root / "linked").symlink_to("text")
    changeset = await lab.workspaces.capture(base, ref)

    patch = await whole(lab.trees.diff(base, changeset))
    fresh = lab.fresh(base, tmp_path / "fresh")
    before = bytes_below(fresh)
    git(fresh, "init", "-q")
    git(fresh, "apply", "--binary", "-", stdin=patch)

    assert bytes_below(fresh) == bytes_below(root)
    git(fresh, "apply", "--binary", "-R", "-", stdin=patch)
    assert bytes_below(fresh) == before
    some = await whole(lab.trees.diff(base, changeset, paths=["few", "small"]))
    assert b"literal 3\n" in some
    assert some.count(b"diff --git") == 2
    shown = await whole(lab.trees.diff(base, changeset, has_binary=False))
    assert b"\nBinary files a/text and b/text differ\n" in shown
    assert b"\nBinary files differ\n" in shown
    assert len(shown) < 4096
    by_path = {change.path: change for change in changeset.changes}
    assert by_path["text"].is_binary
    assert not by_path["small"].is_binary


async def test_a_patch_file_of_a_large_file_is_written_and_known_again(
    lab: Lab, tmp_path: Path
) -> None:
    base = await started(lab)
    changeset = await lab.changed(base, {"tool": NOISE})
    place = tmp_path / "out.patch"

    await lab.apply(base, changeset, order("patch", name=str(place)))
    await lab.apply(base, changeset, order("patch", name=str(place)))

    assert place.read_bytes() == await whole(lab.trees.diff(base, changeset))


async def test_of_large_files_only_one_that_stays_the_same_counts_as_renamed(lab: Lab) -> None:
    lab.write({"moved": NOISE, "edited": b"1" + NOISE})
    base = await started(lab)
    ref, root = await lab.workspace(base)
    (root / "moved").rename(root / "moved2")
    (root / "edited").rename(root / "edited2")
    (root / "edited2").write_bytes(NOISE + b"2")
    changeset = await lab.workspaces.capture(base, ref)

    found = {(change.old_path, change.path): change.status for change in changeset.changes}
    assert found == {
        ("moved", "moved2"): ChangeStatus.RENAMED,
        (None, "edited"): ChangeStatus.DELETED,
        (None, "edited2"): ChangeStatus.ADDED,
    }
    patch = await whole(lab.trees.diff(base, changeset))
    assert b"\nrename to moved2\n" in patch
    assert b"\nsimilarity index 100%\n" in patch


def said_by(script: str, *arguments: object) -> bytes:
    """Return what a script beside this file prints, in a process whose memory is its own."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / script), *map(str, arguments)],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def one_patch(place: Path, given: str) -> tuple[int, bytes]:
    """Return the peak of git's memory in bytes while a patch is made, and the patch."""
    place.write_text(given)
    peak, _, patch = said_by("one_patch.py", place).partition(b"\n")
    return int(peak), patch


@pytest.mark.parametrize(
    ("paths", "status"),
    [(["moved"], b"deleted file mode 100644"), (["to"], b"new file mode 100644")],
)
async def test_of_a_large_renamed_file_one_end_is_shown_and_git_does_not_hold_it(
    lab: Lab, tmp_path: Path, paths: list[str], status: bytes
) -> None:
    lab.write({"moved": random.Random(8).randbytes(48 * 2**20), "other": "a\n"})
    base = await started(lab)
    ref, root = await lab.workspace(base)
    (root / "to").mkdir()
    (root / "moved").rename(root / "to/moved")
    (root / "other").write_text("b\n")
    changeset = await lab.workspaces.capture(base, ref)
    said = {"base": to_json(base), "changeset": to_json(changeset), "paths": paths}
    given = {"home": str(lab.trees.home), **said}

    peak, patch = one_patch(tmp_path / "given", json.dumps(given))

    assert peak < 48 * 2**20  # our own is counted until git begins
    assert patch.count(b"diff --git") == 1
    assert status in patch


async def test_both_ends_of_a_large_renamed_file_make_a_rename_and_one_end_a_patch_that_applies(
    lab: Lab, tmp_path: Path
) -> None:
    lab.write({"moved": NOISE})
    base = await started(lab)
    ref, root = await lab.workspace(base)
    (root / "to").mkdir()
    (root / "moved").rename(root / "to/moved")
    changeset = await lab.workspaces.capture(base, ref)
    ends = [whole(lab.trees.diff(base, changeset, paths=[end])) for end in ("moved", "to/moved")]
    goes, comes = [await end for end in ends]

    both = await whole(lab.trees.diff(base, changeset, paths=["to", "moved"]))
    assert both == await whole(lab.trees.diff(base, changeset))
    assert b"\nrename to to/moved\n" in both
    fresh = lab.fresh(base, tmp_path / "fresh")
    git(fresh, "init", "-q")
    git(fresh, "apply", "--binary", "-", stdin=comes)
    assert (fresh / "moved").read_bytes() == (fresh / "to/moved").read_bytes() == NOISE
    git(fresh, "apply", "--binary", "-", stdin=goes)
    assert bytes_below(fresh) == bytes_below(root)


def test_git_and_the_engine_hold_little_of_a_large_text(tmp_path: Path) -> None:
    """64 MiB of `y` cost git 1.4 GB where it counted its lines."""
    engine, child, patch = map(int, said_by("large_text.py", tmp_path, 64 * 2**20).split())
    assert engine < 40 * 1024 * 1024
    assert child < 100 * 1024 * 1024
    assert patch > 1000


def test_neither_git_nor_the_engine_holds_a_large_file_that_is_handed_over(tmp_path: Path) -> None:
    """It went to the user's repository as one value: three times its bytes."""
    engine, child = map(int, said_by("large_branch.py", tmp_path, 2**27).split())
    assert engine < 40 * 2**20
    assert child < 110 * 2**20  # of which 32 are windows on a pack


def test_git_does_not_hold_a_large_file_of_the_base(copying: Lab, tmp_path: Path) -> None:
    """It held it twice over as it read the history, and once as it wrote the tree."""
    size = 48 * 2**20
    copying.write({"large": random.Random(9).randbytes(size), "small": "a\n"})
    git(copying.repo, "add", ".")
    copying.commit()
    child, written = map(int, said_by("begun_base.py", copying.repo, tmp_path).split())
    assert written > size
    assert child < 80 * 2**20  # of which 48 are the file as the kernel shows it


async def test_a_patch_whose_reader_goes_ends_its_git(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = await started(lab)
    changeset = await lab.changed(base, {f"f{number}": "x\n" * 5000 for number in range(90)})
    begun: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            begun.append(self)

    monkeypatch.setattr(git_client, "PIECE_BYTES", 1000)
    monkeypatch.setattr(subprocess, "Popen", Noted)
    pieces = lab.trees.patch(base, changeset)
    assert len(next(pieces)) == 1000
    assert begun[-1].returncode is None

    pieces.close()

    assert begun[-1].returncode is not None


async def test_a_patch_that_breaks_off_goes_on_where_it_was_once_its_store_is_mended(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = await started(lab)
    changeset = await lab.changed(base, {"tool": NOISE, "other": NOISE[5:]})
    wanted = await whole(lab.trees.diff(base, changeset))
    broken: list[int] = []
    made = patch_pieces.patch_pieces

    def breaking(*given: Any, **more: Any) -> Iterator[bytes]:
        size = 0
        for piece in made(*given, **more):
            yield piece
            size += len(piece)
            if not broken and size > 1000:
                broken.append(size)
                raise WorkFailed("torn")

    monkeypatch.setattr("patchyard.workspaces.pinned.patch_pieces", breaking)

    assert await whole(lab.trees.diff(base, changeset)) == wanted
    assert broken


async def test_a_large_file_whose_content_is_lost_is_named(copying: Lab) -> None:
    base = await started(copying)
    changeset = await copying.changed(base, {"tool": NOISE})
    delete_objects(Path(base.store))

    with pytest.raises(Unavailable, match="was deleted"):
        await whole(GitTrees(copying.trees.home).diff(base, changeset))
