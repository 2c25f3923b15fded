"""Who has the turn in a checkout, and what happens where the lock cannot be had as usual."""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from handovers import begun, order
from laboratory import Lab, git, lab_at
from patchyard.clients.locks import holders
from patchyard.domain.errors import Conflict, StateRefusal
from patchyard.workspaces import turns
from patchyard.workspaces.handover import GitHandOver
from patchyard.workspaces.turns import LOCK, turn_in

pytestmark = pytest.mark.anyio

#: What a turn that was killed leaves.
LEFT = json.dumps({"pid": 1, "started": 1, "host": "far", "home": "/gone"})


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up at once where another process is at work."""
    monkeypatch.setattr(turns, "BUSY_S", 0.0)


@contextmanager
def acting_as(user: int) -> Iterator[None]:
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def mounted_read_only(place: Path) -> Iterator[None]:
    for options in (["--bind", str(place)], ["-o", "remount,ro,bind"]):
        subprocess.run(["mount", *options, str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


@contextmanager
def exchanging(one: Path, other: Path) -> Iterator[None]:
    """Exchange two names all the time, as fast as a process can."""
    libc, is_over = ctypes.CDLL(None), threading.Event()

    def exchange() -> None:
        while not is_over.is_set():
            libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2)

    swapper = threading.Thread(target=exchange)
    swapper.start()
    try:
        yield
    finally:
        is_over.set()
        swapper.join()


@pytest.mark.usefixtures("impatient")
async def test_who_has_the_turn_is_named_and_the_file_goes_with_it(tmp_path: Path) -> None:
    instead = tmp_path / "instead"
    async with turn_in(tmp_path, home=tmp_path / "h1", instead=instead) as is_alone:
        assert is_alone
        with pytest.raises(Conflict) as caught:
            async with turn_in(tmp_path, home=tmp_path / "h2", instead=instead):
                raise AssertionError

    assert f"process {os.getpid()} of the home {tmp_path / 'h1'}; nothing" in caught.value.message
    assert not (tmp_path / LOCK).exists()


@pytest.mark.usefixtures("impatient")
async def test_a_note_of_a_process_that_ended_is_not_believed(tmp_path: Path) -> None:
    stale = {"pid": os.getpid(), "started": 1, "host": os.uname().nodename, "home": "/gone"}
    place = tmp_path / LOCK
    note = '{"pid": %s, "started": 1, "host": "far", "home": "/gone"}'
    numbers = [note % number for number in ("Infinity", "NaN", "1e400", "9" * 5000)]
    for note in (json.dumps(stale), "", "[1]", '{"pid": "x"}', "[" * 16_000, *numbers):
        place.write_text(note)
        with place.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(Conflict, match=f"held by process {os.getpid()}, nothing"):
                async with turn_in(tmp_path, home=tmp_path, instead=tmp_path / "instead"):
                    raise AssertionError
    async with turn_in(tmp_path, home=tmp_path, instead=tmp_path / "instead"):
        assert json.loads(place.read_text())["home"] == str(tmp_path)


@pytest.mark.service("root")
@pytest.mark.usefixtures("impatient")
async def test_users_with_homes_of_their_own_wait_for_each_other(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.name.startswith(("pytest-", "popen-", "test_")):
            folder.chmod(0o711)
    shared = tmp_path / "git"
    shared.mkdir()
    shared.chmod(0o777)
    instead = tmp_path / "instead"
    with acting_as(4001):
        async with turn_in(shared, home=Path("/homes/ann"), instead=instead):
            os.seteuid(0)
            with acting_as(4002), pytest.raises(Conflict, match="of the home /homes/ann"):
                async with turn_in(shared, home=Path("/homes/bob"), instead=instead):
                    raise AssertionError
    with acting_as(4001):
        (shared / LOCK).write_text(LEFT)
    with acting_as(4002):
        async with turn_in(shared, home=Path("/homes/bob"), instead=instead) as is_alone:
            assert is_alone
    assert not (shared / LOCK).exists()


@pytest.mark.usefixtures("impatient")
async def test_where_the_file_system_locks_nothing_the_home_keeps_its_own_apart(
    copying: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, changeset = await begun(copying)
    flock = fcntl.flock

    def refusing(descriptor: int, how: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == LOCK:
            raise OSError(errno.ENOLCK, "No locks available")
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", refusing)
    async with GitHandOver(copying.trees).turn(base):
        store = copying.trees.store_of(base).folder
        assert holders(store / "handing.lock") == [os.getpid()]
        receipt = await copying.apply(base, changeset, order("worktree"))

    assert receipt.is_done
    assert not list((copying.repo / ".git").glob("patchyard*"))


@pytest.mark.service("root")
async def test_a_patch_is_written_out_of_a_checkout_that_is_mounted_read_only(
    copying: Lab, tmp_path: Path
) -> None:
    base, changeset = await begun(copying)
    with mounted_read_only(copying.repo):
        async with GitHandOver(copying.trees).turn(base):
            await copying.apply(base, changeset, order("patch", name=str(tmp_path / "p")))
    git(copying.repo, "apply", "--check", str(tmp_path / "p"))


@pytest.mark.usefixtures("impatient")
async def test_a_linked_worktree_has_a_turn_of_its_own(copying: Lab, tmp_path: Path) -> None:
    base, _ = await begun(copying)
    place = tmp_path / "linked"
    place.mkdir()
    linked = lab_at(place, "copy")
    (linked.repo / ".git").rename(place / "unused")
    linked.repo.rmdir()
    git(copying.repo, "worktree", "add", "-q", str(linked.repo), "-b", "linked")
    theirs = await linked.base()
    changeset = await linked.changed(theirs, {"a.txt": "linked\n"})

    async with GitHandOver(copying.trees).turn(base), GitHandOver(linked.trees).turn(theirs):
        await linked.apply(theirs, changeset, order("merge"))
        with pytest.raises(Conflict, match=r"worktrees/repo/patchyard\.lock is held by process"):
            async with GitHandOver(copying.trees).turn(theirs):
                raise AssertionError

    assert git(linked.repo, "status", "--porcelain") == ""
    assert git(copying.repo, "status", "--porcelain") == ""


def _link(place: Path, mine: Path) -> None:
    place.symlink_to(mine)


def _second_name(place: Path, mine: Path) -> None:
    place.hardlink_to(mine)


def _folder(place: Path, _mine: Path) -> None:
    place.mkdir()


def _pipe(place: Path, _mine: Path) -> None:
    os.mkfifo(place)


@pytest.mark.parametrize("make", [_link, _second_name, _folder, _pipe])
async def test_what_lies_in_the_place_of_the_lock_is_named_and_left_as_it_is(
    tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    mine, place = tmp_path / "mine", tmp_path / LOCK
    mine.write_text("mine\n")
    mine.chmod(0o600)
    make(place, mine)

    with pytest.raises(StateRefusal, match="is no lock file"):
        async with turn_in(tmp_path, home=tmp_path, instead=tmp_path / "instead"):
            pass

    assert (mine.read_text(), mine.stat().st_mode & 0o777) == ("mine\n", 0o600)
    assert place.is_symlink() or place.exists()


async def test_a_lock_that_another_has_put_in_place_of_the_git_directory_is_left(
    tmp_path: Path,
) -> None:
    folder, others = tmp_path / "git", tmp_path / "others"
    folder.mkdir()
    others.mkdir()
    (others / LOCK).write_text("of others")

    async with turn_in(folder, home=tmp_path, instead=tmp_path / "instead"):
        folder.rename(tmp_path / "moved")
        folder.symlink_to(others)

    assert (others / LOCK).read_text() == "of others"
    assert not (tmp_path / "moved" / LOCK).exists()


async def test_nothing_stays_where_a_link_led_that_took_turns_with_the_git_directory(
    tmp_path: Path,
) -> None:
    folder, others, link = tmp_path / "git", tmp_path / "others", tmp_path / "link"
    folder.mkdir()
    others.mkdir()
    link.symlink_to(others)
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    given_away = []
    with exchanging(folder, link):
        for _ in range(300):
            async with turn_in(folder, home=tmp_path, instead=tmp_path / "instead"):
                given_away += [
                    each.name for each in others.iterdir() if each.lstat().st_uid != os.geteuid()
                ]

    assert not list(others.iterdir())
    assert not given_away


async def test_a_lock_that_was_left_is_replaced_and_not_written_to(tmp_path: Path) -> None:
    place = tmp_path / LOCK
    for text in (LEFT, ""):
        place.write_text(text)
        with place.open() as left:
            async with turn_in(tmp_path, home=tmp_path, instead=tmp_path / "instead"):
                assert json.loads(place.read_text())["home"] == str(tmp_path)
            assert left.read() == text
    assert not place.exists()


@pytest.mark.service("root")
async def test_a_lock_that_was_left_in_a_closed_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.name.startswith(("pytest-", "popen-", "test_")):
            folder.chmod(0o711)
    shared, instead = tmp_path / "git", tmp_path / "instead"
    shared.mkdir(mode=0o755)
    (shared / LOCK).write_text(LEFT)
    with acting_as(4001):
        async with turn_in(shared, home=tmp_path, instead=instead) as held:
            assert held is not None
            assert holders(shared / LOCK) == [os.getpid()]
    assert (shared / LOCK).read_text() == LEFT


@pytest.mark.parametrize("text", ["secret\n", LEFT + "\n" * turns.MAX_NOTE_BYTES])
async def test_a_private_file_that_was_moved_to_the_place_of_the_lock_is_left_as_it_is(
    tmp_path: Path, text: str
) -> None:
    folder = tmp_path / "git"
    place = folder / LOCK
    folder.mkdir()
    place.write_text(text)
    place.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    before = place.stat()

    with pytest.raises(StateRefusal, match="is no lock file") as caught:
        async with turn_in(folder, home=tmp_path, instead=tmp_path / "instead"):
            raise AssertionError

    assert f"mv {place} " in (caught.value.hint or "")
    assert place.stat() == before
    assert place.read_text() == text


@pytest.mark.service("root")
async def test_an_empty_file_of_a_third_user_is_left_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / LOCK
    place.touch(0o600)
    os.chown(place, 65534, 65534)
    before = place.stat()

    with pytest.raises(StateRefusal, match="is no lock file"):
        async with turn_in(tmp_path, home=tmp_path, instead=tmp_path / "instead"):
            raise AssertionError

    assert place.stat() == before


async def test_a_private_file_that_takes_turns_with_the_lock_is_not_opened_to_others(
    tmp_path: Path,
) -> None:
    folder, instead = tmp_path / "git", tmp_path / "instead"
    folder.mkdir()
    private, empty = folder / "private", folder / "empty"
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    for _ in range(100):
        private.write_text("secret\n")
        private.chmod(0o600)
        with private.open() as held:
            empty.touch()
            empty.rename(folder / LOCK)
            with exchanging(private, folder / LOCK), contextlib.suppress(StateRefusal):
                async with turn_in(folder, home=tmp_path, instead=instead):
                    pass
            status = os.fstat(held.fileno())
            assert (status.st_mode & 0o777, status.st_uid) == (0o600, os.geteuid())
            assert held.read() == "secret\n"
        for each in list(folder.iterdir()):
            each.unlink()
