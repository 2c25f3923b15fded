"""Exchanges that are cut short, which the next one mends; far sides that lie, in vain."""

import base64
import os
import stat
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients import replicas as replicas_module
from patchyard.clients.far_claims import Bounds, FarLook, checked_rows, require_folders
from patchyard.clients.path_mapping import PathMapping
from patchyard.clients.replicas import Replica
from patchyard.contracts.environment import OnOutput
from patchyard.domain.errors import EnvironmentBroken, Unavailable
from patchyard.toolbox import replicating
from patchyard.toolbox.trees import digest_of
from patchyard.toolbox.twins import Twin
from replicas import HERE, InProcess, at_home, contents, kept
from timing import quickest

pytestmark = pytest.mark.anyio


class CutError(Exception):
    """The engine was killed here."""


class Cut(InProcess):
    """Gives up at one request: before it is carried out, or after."""

    def __init__(self, workspace: Path) -> None:
        super().__init__(workspace)
        self.left = 10**6
        self.is_after = False

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
    ) -> Mapping[str, Any]:
        self.left -= 1
        if self.left == 0 and not self.is_after:
            raise CutError
        answer = await super().call(call_id, op, args, on_output=on_output)
        if self.left == 0:
            raise CutError
        return answer


def over(toolbox: Any, home: Path, far: Path) -> Replica:
    """A replica in `far` of the tree at home."""
    mapping = PathMapping(here=HERE, there=str(far))
    return Replica(toolbox, at_home(home), mapping, tenure=kept(home))


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    home, far = tmp_path / "home", tmp_path / "far"
    home.mkdir()
    far.mkdir()
    return home, far


@pytest.fixture
async def cut(trees: tuple[Path, Path]) -> AsyncIterator[Cut]:
    toolbox = Cut(trees[1])
    yield toolbox
    await toolbox.close()


def fill(root: Path) -> None:
    for folder in ("kept", "goes", "turns"):
        (root / folder).mkdir()
        for number in range(4):
            (root / folder / f"{number}").write_text(f"{folder} {number}\n")
    (root / "large").write_bytes(os.urandom(300))
    (root / "was-file").write_text("a file\n")


def edit(root: Path) -> None:
    for number in range(4):
        (root / "goes" / str(number)).unlink()
        (root / "turns" / str(number)).unlink()
        (root / "kept" / str(number)).write_text("new\n")
    (root / "goes").rmdir()
    (root / "turns").rmdir()
    (root / "turns").write_text("a file by now\n")
    (root / "was-file").unlink()
    (root / "was-file").mkdir()
    (root / "was-file/in").symlink_to("../kept")
    (root / "large").write_bytes(os.urandom(400))


@pytest.fixture
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas_module, "BATCH_BYTES", 64)
    monkeypatch.setattr(replicas_module, "BATCH_ROWS", 2)


@pytest.mark.usefixtures("_small_batches")
@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("edited", ["home", "far"])
async def test_an_exchange_cut_at_any_request_is_mended_by_the_next_engine(
    tmp_path: Path,
    edited: str,
    is_after: bool,
) -> None:
    for cut_at in range(1, 200):
        home, far = tmp_path / f"home-{cut_at}", tmp_path / f"far-{cut_at}"
        home.mkdir()
        far.mkdir()
        fill(home)
        toolbox = Cut(far)
        replica = over(toolbox, home, far)
        await replica.recover(takes_home=True)
        edit(home if edited == "home" else far)
        wanted = contents(home if edited == "home" else far)
        toolbox.left, toolbox.is_after = cut_at, is_after
        is_cut = False
        try:
            await replica.bring_home()
            await replica.bring_in()
        except CutError:
            is_cut = True
        toolbox.left = 10**6
        again = over(toolbox, home, far)
        await again.recover(takes_home=True)
        assert contents(home) == contents(far) == wanted
        for each in (replica, again):
            await each.close()
        await toolbox.close()
        if not is_cut:
            assert cut_at > 10
            return
    raise AssertionError("it was never whole")


async def test_what_comes_in_many_pieces_arrives(
    trees: tuple[Path, Path], cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas_module, "BATCH_BYTES", 1000)
    home, far = trees
    (home / "large").write_bytes(os.urandom(12_345))
    replica = over(cut, home, far)
    await replica.recover(takes_home=True)
    (far / "other").write_bytes(os.urandom(54_321))
    (far / "empty").touch()
    await replica.bring_home()
    await replica.close()
    assert contents(home) == contents(far)


async def test_long_lists_travel_in_pages(
    trees: tuple[Path, Path], cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicating, "PAGE_ENTRIES", 7)
    monkeypatch.setattr(replicas_module, "PAGE_ROWS", 7)
    home, far = trees
    for number in range(40):
        (home / f"{number}").touch()
    replica = over(cut, home, far)
    await replica.recover(takes_home=True)
    for number in range(20):
        (far / f"{number}").unlink()
        (far / f"new{number}").touch()
    await replica.bring_home()
    await replica.close()
    again = Replica(cut, at_home(home), PathMapping(here=HERE, there=str(far)), tenure=kept(home))
    await again.recover(takes_home=True)
    await again.close()
    assert contents(home) == contents(far)
    assert len(contents(home)) == 40


async def test_what_never_travels_is_named(trees: tuple[Path, Path], cut: Cut) -> None:
    home, far = trees
    replica = over(cut, home, far)
    await replica.recover(takes_home=True)
    os.mkfifo(far / "pipe")
    (far / "tool").write_text("#!/bin/sh\n")
    (far / "tool").chmod(0o4755)
    deep = far
    for _ in range(202):
        deep /= "d"
    deep.mkdir(parents=True)
    await replica.bring_home()
    await replica.close()
    assert sorted(why for _, why in replica.left_out) == ["a FIFO", "its setuid bit", "too deep"]
    assert stat.S_IMODE((home / "tool").stat().st_mode) == 0o755
    assert not (home / "pipe").exists()


@pytest.mark.service("root")
async def test_what_comes_home_belongs_to_the_agent(trees: tuple[Path, Path], cut: Cut) -> None:
    home, far = trees
    twin = at_home(home, owner=(61_000, 61_001))
    replica = Replica(cut, twin, PathMapping(here=HERE, there=str(far)), tenure=kept(home))
    await replica.recover(takes_home=True)
    fill(far)
    (far / "link").symlink_to("kept")
    await replica.bring_home()
    await replica.close()
    owners = {(each.lstat().st_uid, each.lstat().st_gid) for each in home.rglob("*")}
    assert owners == {(61_000, 61_001)}


class Liar(InProcess):
    """Answers some operations with what it was told to."""

    def __init__(self, workspace: Path, **lies: Any) -> None:
        super().__init__(workspace)
        self.lies = lies

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
    ) -> Mapping[str, Any]:
        if op in self.lies:
            answer = {"success": True, "look": 1, "entries": [], "gone": [], "next": 0}
            return {**answer, **self.lies[op]}
        return await super().call(call_id, op, args, on_output=on_output)


MARK = digest_of().hexdigest()


def a_file(path: Any, **other: Any) -> list[Any]:
    fields = {"kind": "f", "mode": 0o644, "mtime": 0, "size": 0, "mark": MARK} | other
    return [path, *fields.values()]


def a_link(path: str, target: Any) -> list[Any]:
    return [path, "l", 0, 0, 0, target]


LIES: dict[str, Mapping[str, Any]] = {
    "an absolute path": {"entries": [a_file("/etc/cron.d/x")]},
    "a path upwards": {"entries": [a_file("../outside")]},
    "a path upwards within": {"entries": [a_file("a/../../outside")]},
    "an empty part": {"entries": [a_file("a//b")]},
    "no path": {"entries": [a_file("")]},
    "a NUL": {"entries": [a_file("a\0b")]},
    "a lone surrogate that is no byte": {"entries": [a_file("\ud800")]},
    "a path of numbers": {"entries": [a_file(7)]},
    "a name of ours": {"entries": [a_file(".patchyard-replica-00")]},
    "a name too long": {"entries": [a_file("x" * 256)]},
    "a path too long": {"entries": [a_file("x/" * 3000 + "x")]},
    "one path twice": {"entries": [a_file("a"), a_file("a")]},
    "a device": {"entries": [a_file("a", kind="c")]},
    "a setuid bit": {"entries": [a_file("a", mode=0o4755)]},
    "a size below zero": {"entries": [a_file("a", size=-1)]},
    "a huge file": {"entries": [a_file("a", size=2**63)]},
    "a size that is no number": {"entries": [a_file("a", size="1")]},
    "a truth for a mode": {"entries": [a_file("a", mode=True)]},
    "a time beyond all": {"entries": [a_file("a", mtime=2**70)]},
    "no digest": {"entries": [a_file("a", mark="zz")]},
    "a link without a target": {"entries": [a_link("a", "")]},
    "a target that is no text": {"entries": [a_link("a", "\ud800")]},
    "a folder with content": {"entries": [a_file("a", kind="d", mark="x")]},
    "two spellings of one path": {"entries": [a_link("é", "/"), a_file("\udcc3\udca9/b")]},
    "too much text": {"entries": [a_file("x/" * 100 + str(number)) for number in range(400)]},
    "pages of next to nothing": {"entries": [a_file("a")], "next": 1},
    "a file below a link": {"entries": [a_link("a", ".."), a_file("a/b")]},
    "a file below a known link": {"entries": [a_file("link/b")]},
    "an entry of another shape": {"entries": [["a"]]},
    "no list": {"entries": "all"},
    "too many": {"entries": [a_file(str(number)) for number in range(2000)]},
    "gone beyond": {"gone": ["../outside"]},
    "gone, no list": {"gone": {"a": 1}},
    "gone too many": {"gone": [str(number) for number in range(2000)]},
    "pages without an end": {"next": 1},
    "a page that is none": {"entries": [a_file("a")], "next": -4},
    "no number": {"look": None},
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_far_side_that_lies_changes_nothing_and_ends_in_an_error(
    trees: tuple[Path, Path], lie: str
) -> None:
    home, far = trees
    (home / "kept").write_text("mine\n")
    (home / "link").symlink_to("/")
    outside = home.parent / "outside"
    outside.write_text("not yours\n")
    liar = Liar(far)
    bounds = Bounds(entries=1000, file_bytes=10**6, bytes=10**7, path_chars=60_000)
    mapping = PathMapping(here=HERE, there=str(far))
    replica = Replica(liar, at_home(home), mapping, bounds=bounds, tenure=kept(home))
    await replica.recover(takes_home=True)
    before = contents(home)
    liar.lies = {"replica_look": LIES[lie], "replica_page": {}}
    with pytest.raises(EnvironmentBroken) as broken:
        await replica.bring_home()
    await replica.close()
    await liar.close()
    assert broken.value.hint
    assert contents(home) == before
    assert outside.read_text() == "not yours\n"


def test_claims_of_deep_paths_cost_no_more_than_others() -> None:
    """Walking up from each of them took fifty times as long as what stands at the top."""
    looks = []
    for above in ("ddd", "/".join(["ddd"] * 190)):
        rows = checked_rows([a_file(f"{above}/{number}") for number in range(3000)], Bounds())
        looks.append(FarLook(number=1, entries=rows, gone=(), left_out=(), is_busy=False))
    near, deep = (quickest(partial(require_folders, look, {})) for look in looks)
    assert deep < 10 * near


CONTENTS: dict[str, Any] = {
    "other bytes": [base64.b64encode(b"evil").decode()],
    "fewer bytes": [base64.b64encode(b"tr").decode()],
    "more bytes": [base64.b64encode(b"truely").decode()],
    "no base 64": ["(%)"],
    "none at all": [None],
    "a number": [4],
    "too few answers": [],
    "no list": None,
}


@pytest.mark.parametrize("pieces", CONTENTS)
async def test_content_that_is_not_what_was_announced_never_arrives(
    trees: tuple[Path, Path], pieces: str
) -> None:
    home, far = trees
    digest = digest_of()
    digest.take(b"true")
    row = a_file("a", size=4, mark=digest.hexdigest())
    liar = Liar(
        far,
        replica_look={"entries": [row], "is_busy": False},
        replica_get={"pieces": CONTENTS[pieces]},
        replica_settle={},
    )
    replica = over(liar, home, far)
    with pytest.raises(EnvironmentBroken):
        await replica.bring_home()
    await replica.close()
    await liar.close()
    assert contents(home) == {}


async def test_a_link_outwards_is_kept_as_a_link_and_never_followed(
    trees: tuple[Path, Path], cut: Cut
) -> None:
    home, far = trees
    outside = home.parent / "outside"
    outside.mkdir()
    (home / "sub").mkdir()
    replica = over(cut, home, far)
    await replica.recover(takes_home=True)
    (far / "sub/new").write_text("inside\n")
    (far / "out").symlink_to(outside)
    (home / "sub").rmdir()
    (home / "sub").symlink_to(outside)  # what an agent at home may do meanwhile
    await replica.bring_home()
    await replica.bring_in()
    await replica.close()
    assert list(outside.iterdir()) == []
    assert (home / "out").readlink() == outside
    assert (home / "sub/new").read_text() == "inside\n"
    assert contents(home) == contents(far)


async def test_a_full_disk_at_home_is_called_that(
    trees: tuple[Path, Path], cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, far = trees
    replica = over(cut, home, far)
    (far / "new").write_text("content\n")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Twin, "write", full)
        with pytest.raises(Unavailable, match="No space left"):
            await replica.bring_home()
        patched.setattr(Twin, "write", lambda *_: (_ for _ in ()).throw(OSError(40, "loop")))
        with pytest.raises(EnvironmentBroken, match="cannot be done at home"):
            await replica.bring_home()
    await replica.bring_home()
    await replica.close()
    assert contents(home) == contents(far)
