"""The operations that keep a workspace equal to one elsewhere, asked rightly and wrongly."""

import base64
import errno
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from patchyard.toolbox import processes, replicating, trees
from patchyard.toolbox.footing import STAGED, Footing
from patchyard.toolbox.trees import Entry, Record, Tree, digest_of, record_of
from patchyard.toolbox.twins import Twin
from services import ordinary_python
from toolboxes import Operations


def a_file(path: str, content: bytes, *, mode: int = 0o644, mtime: int = 10**18) -> list[Any]:
    digest = digest_of()
    digest.take(content)
    return [path, "f", mode, mtime, len(content), digest.hexdigest()]


def whole(path: str, content: bytes, **more: int) -> list[Any]:
    return [*a_file(path, content, **more), 0, base64.b64encode(content).decode()]


def test_what_is_put_is_agreed_and_no_difference(tools: Operations) -> None:
    rows = [["sub", "d", 0o750, 0, 0, "", 0, None], whole("sub/a", b"one", mode=0o600)]
    rows.append(["link", "l", 0, 0, 0, "sub/a", 0, None])
    assert tools.run("replica_put", entries=rows)["success"]
    finished = tools.run("replica_put", folders=[["sub", "d", 0o750, 0, 0, ""]])
    assert finished["success"]
    look = tools.run("replica_look")
    assert (look["entries"], look["gone"]) == ([], [])
    assert (tools.workspace / "link").read_text() == "one"
    assert (tools.workspace / "sub").stat().st_mode & 0o777 == 0o750
    assert (tools.workspace / "sub/a").stat().st_mtime_ns == 10**18
    known = tools.run("replica_known")["entries"]
    assert [row[:3] for row in known] == [
        ["link", "l", 0],
        ["sub", "d", 0o750],
        ["sub/a", "f", 0o600],
    ]


def test_a_difference_stays_until_it_is_settled(tools: Operations) -> None:
    (tools.workspace / "new").write_bytes(b"text")
    for _ in range(2):
        look = tools.run("replica_look")
        assert [row[0] for row in look["entries"]] == ["new"]
    pieces = [["new", 0, 2], ["new", 2, 10], ["none", 0, 1]]
    got = tools.run("replica_get", look=look["look"], pieces=pieces)["pieces"]
    assert got == [base64.b64encode(b"te").decode(), base64.b64encode(b"xt").decode(), None]
    assert tools.run("replica_settle", look=look["look"], without=["new"])["success"]
    look = tools.run("replica_look")
    assert [row[0] for row in look["entries"]] == ["new"]
    assert tools.run("replica_settle", look=look["look"])["success"]
    assert tools.run("replica_look")["entries"] == []
    (tools.workspace / "new").unlink()
    assert tools.run("replica_look")["gone"] == ["new"]


def test_a_mode_or_time_travels_without_the_content(tools: Operations) -> None:
    old = 10**18
    tools.run("replica_put", entries=[whole("a", b"one", mtime=old)])
    record = tools.room.replica.twin.agreed["a"] if tools.room.replica else None
    assert record is not None
    assert tools.room.replica is not None
    tools.room.replica.twin.agreed["a"] = record._replace(seen=record.seen + 10**10)
    adjusted = [*a_file("a", b"one", mode=0o755, mtime=old + 1), 0, None]
    assert tools.run("replica_put", entries=[adjusted])["wanted"] == []
    assert (tools.workspace / "a").stat().st_mode & 0o777 == 0o755
    other = [*a_file("a", b"two"), 0, None]
    assert tools.run("replica_put", entries=[other])["wanted"] == ["a"]
    unknown = [*a_file("b", b"two"), 0, None]
    assert tools.run("replica_put", entries=[unknown])["wanted"] == ["b"]
    (tools.workspace / "a").write_bytes(b"new")
    assert tools.run("replica_put", entries=[adjusted])["wanted"] == ["a"]
    (tools.workspace / "a").unlink()
    assert tools.run("replica_put", entries=[adjusted])["wanted"] == ["a"]


def test_a_file_in_pieces_is_there_with_the_last_one(tools: Operations) -> None:
    head = a_file("a", b"onetwo")
    first = [*head, 0, base64.b64encode(b"one").decode()]
    assert tools.run("replica_put", entries=[first])["success"]
    assert not (tools.workspace / "a").exists()
    assert tools.run("replica_put", entries=[first])["success"]  # begun anew
    last = [*head, 3, base64.b64encode(b"two").decode()]
    assert tools.run("replica_put", entries=[last])["success"]
    assert (tools.workspace / "a").read_bytes() == b"onetwo"


@pytest.mark.parametrize(
    "row",
    [
        [*a_file("a", b"one"), 0, base64.b64encode(b"two").decode()],
        [*a_file("a", b"one"), 0, base64.b64encode(b"longer").decode()],
        [*a_file("a", b"one"), 0, ""],
        [*a_file("a", b"one"), 2, base64.b64encode(b"e").decode()],
        [*a_file("a", b"one"), 0, "(no base 64)"],
    ],
)
def test_what_is_not_as_announced_is_not_there(tools: Operations, row: list[Any]) -> None:
    assert tools.code("replica_put", entries=[row]) == "VALIDATION_ERROR"
    assert list(tools.workspace.iterdir()) == []


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("replica_page", {"look": 99}),
        ("replica_get", {"look": 0, "pieces": "all"}),
        ("replica_get", {"look": 0, "pieces": [["a", 0]]}),
        ("replica_get", {"look": 0, "pieces": [["a", 0, 9 * 1024**2]]}),
        ("replica_settle", {"look": 0, "without": [4]}),
        ("replica_put", {"gone": {"a": 1}}),
    ],
)
def test_what_makes_no_sense_is_refused(tools: Operations, op: str, args: dict[str, Any]) -> None:
    assert tools.code(op, **args) == "VALIDATION_ERROR"


def test_a_read_only_workspace_is_still_kept_equal(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    tools = Operations(tmp_path / "work", is_read_only=True)
    assert tools.run("replica_put", entries=[whole("a", b"one")])["success"]
    assert tools.code("write_file", path="b", content="x") == "READ_ONLY"
    tools.room.close()


def test_a_kernel_that_names_no_children_is_asked_for_all_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silent(*_: Any, **__: Any) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(replicating, "open", silent, raising=False)
    table = {7: SimpleNamespace(parent=os.getpid())}
    monkeypatch.setattr(processes, "snapshot", lambda: table)
    assert replicating.is_anything_running() is True
    table[7].parent = 1
    assert replicating.is_anything_running() is False


ORDINARY = """
import os, sys
from pathlib import Path
from patchyard.toolbox.trees import Entry, digest_of
from patchyard.toolbox.twins import Twin

root = Path(sys.argv[1])
(root / "closed/in").mkdir(parents=True)
(root / "closed/in/file").write_text("text")
(root / "closed/in/file").chmod(0)
(root / "closed/in").chmod(0)
(root / "closed").chmod(0o200)
(root / "unread").mkdir(mode=0o700)
(root / "unread").chmod(0o400)
twin = Twin(str(root))
look = twin.look()
assert look.left_out == [], look.left_out
assert sorted(look.changed) == ["closed", "closed/in", "closed/in/file", "unread"]
assert look.changed["closed"].entry.mode == 0o200
assert look.changed["closed/in"].entry.mode == 0
assert look.changed["closed/in/file"].entry.mode == 0
assert (root / "closed").stat().st_mode & 0o777 == 0o200
twin.agree(look, without=set())
assert twin.read("closed/in/file", 0, 10) == b"text"
digest = digest_of()
digest.take(b"new")
entry = Entry("f", 0o400, 0, 3, digest.hexdigest())
twin.write("closed/in/other", entry, 0, b"new")
twin.put("closed/in/sub", Entry("d", 0o500, 0, 0, ""))
twin.write("closed/in/sub/deep", entry, 0, b"new")
twin.finish("closed/in/sub", Entry("d", 0o500, 0, 0, ""))
twin.write("closed/in/sub", entry, 0, b"new")
twin.remove(["closed/in/file"])
assert (root / "closed").stat().st_mode & 0o777 == 0o200
(root / "closed").chmod(0o700)
(root / "closed/in").chmod(0o700)
assert sorted(os.listdir(root / "closed/in")) == ["other", "sub"]
assert (root / "closed/in/sub").read_text() == "new"
twin.close()
"""


@pytest.mark.service("ordinary-user")
def test_what_its_owner_closed_to_itself_is_no_obstacle_and_stays_closed() -> None:
    folder = Path(tempfile.mkdtemp(prefix="closed-", dir="/tmp"))
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        os.chown(folder, 65_534, 65_534)
        user = {"user": 65_534, "group": 65_534, "extra_groups": []}
    words = [*ordinary_python(), "-c", ORDINARY, str(folder)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, **user)
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", "--", str(folder)], check=True)
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr


def test_a_file_system_without_nameless_files_has_named_ones(
    tools: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def lacking(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not here")
        return real(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", lacking)
    assert tools.run("replica_put", entries=[whole("a", b"one")])["success"]
    half = [*a_file("b", b"onetwo"), 0, base64.b64encode(b"one").decode()]
    assert tools.run("replica_put", entries=[half])["success"]
    staged = [each for each in tools.workspace.iterdir() if each.name.startswith(STAGED.decode())]
    assert len(staged) == 1
    assert tools.run("replica_look")["entries"] == []  # it is nobody's file
    assert tools.code("replica_put", entries=[[*half[:6], 5, "eA=="]]) == "VALIDATION_ERROR"
    assert [each.name for each in tools.workspace.iterdir()] == ["a"]
    assert tools.run("replica_put", entries=[half])["success"]
    assert tools.run("replica_known")["success"]  # another engine begins, and the first is gone
    assert [each.name for each in tools.workspace.iterdir()] == ["a"]

    def full(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.ENOSPC, "full")
        return real(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", full)
    assert tools.code("replica_put", entries=[whole("c", b"one")]) == "NO_SPACE"


def test_what_a_killed_life_left_half_written_goes_after_a_minute(tools: Operations) -> None:
    old, young = (tools.workspace / f"{STAGED.decode()}{digit * 16}" for digit in "ab")
    for each in (old, young):
        each.touch()
    os.utime(old, (1, 1))
    assert tools.run("replica_look")["entries"] == []
    assert (old.exists(), young.exists()) == (False, True)


def test_what_cannot_be_read_stays_and_is_not_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a").touch()
    (tmp_path / "b").touch()
    tree = Tree(str(tmp_path))
    first = tree.look()
    tree.agree(first, without=set())
    os.utime(tmp_path / "b", (1, 1))
    real = Footing.opened

    def closed(self: Footing, at: int, name: bytes, flags: int) -> int:
        if name in (b"sub", b"b"):
            raise PermissionError(errno.EACCES, "closed")
        return real(self, at, name, flags)

    monkeypatch.setattr(Footing, "opened", closed)
    second = tree.look()
    assert (second.gone, second.changed) == ([], {})
    assert sorted(path for path, _ in second.left_out) == ["b", "sub"]
    monkeypatch.setattr(Footing, "names", lambda *_: (_ for _ in ()).throw(OSError(5, "bad")))
    assert tree.look().left_out[0][0] == ""
    tree.close()
    tree.close()


def test_a_path_that_is_too_long_stays_there(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(20):
        deep /= "x" * 200
        deep.mkdir()
    tree = Tree(str(tmp_path))
    left = tree.look().left_out
    tree.close()
    assert [why for _, why in left] == ["its path is too long"]


def test_a_change_in_the_same_tick_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"one")
    tree = Tree(str(tmp_path))
    tree.agree(tree.look(), without=set())
    before = file.stat()
    with file.open("r+b") as opened:
        opened.write(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert list(tree.look().changed) == ["a"]
    tree.close()


@pytest.mark.parametrize(
    ("ctime", "later", "is_trusted"),
    [
        (10**18 + 5, trees.TICK_NS - 1, False),
        (10**18 + 5, trees.TICK_NS + 1, True),
        (10**18, trees.TICK_NS + 1, False),  # a file system of whole seconds, perhaps
        (10**18, trees.COARSE_NS + 1, True),
    ],
)
def test_a_time_is_trusted_once_nothing_else_can_bear_it(
    ctime: int,
    later: int,
    is_trusted: bool,
) -> None:
    status: Any = SimpleNamespace(st_mode=0o100644, st_ctime_ns=ctime, st_ino=7, st_size=0)
    record = Record(Entry("f", 0o644, 0, 0, ""), 0o100644, ctime, 7, ctime + later)
    assert record.is_as(status) is is_trusted


def test_what_became_something_else_while_it_was_read_is_left_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "folder").mkdir()
    twin = Twin(str(tmp_path))
    real = Footing.opened

    def swapped(self: Footing, at: int, name: bytes, flags: int) -> int:
        other = b"folder" if name == b"a" else name
        return real(self, at, other, flags)

    monkeypatch.setattr(Footing, "opened", swapped)
    assert list(twin.look().changed) == ["folder"]
    with pytest.raises(FileNotFoundError):
        twin.read("a", 0, 10)
    monkeypatch.setattr(Footing, "opened", real)
    twin.agreed["a"] = record_of(Entry("f", 0, 0, 0, ""), (tmp_path / "a").stat())
    twin.remove(["folder/none", "a/b", "none"])
    assert (tmp_path / "a").exists()
    monkeypatch.setattr(os, "unlink", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "bad")))
    with pytest.raises(OSError, match="bad"):
        twin.remove(["a"])
    twin.close()
