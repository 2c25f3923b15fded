"""Clones by address: kept, fetched again, found again after a kill, and never a user's loss."""

import concurrent.futures
import json
import os
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from forges import Forge, commit, forging, git, upstream
from models.certificates import served_as
from patchyard.clients.clones import Clones, is_clone
from patchyard.domain.errors import Unavailable, UsageError
from services import REAL_ENVIRONMENT
from sshds import HOST, serving_ssh

ROOM = 1024**3
TOKEN = "ghp_qwertzuiop0123456789"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The server's repository, with a branch and a tag."""
    made = upstream(tmp_path / "forge/shop.git")
    git(made, "branch", "side")
    git(made, "tag", "v1")
    return made


@pytest.fixture
def forge(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    authority, context = served_as("localhost", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    with forging(shop.parent, context) as made:
        yield made


@pytest.fixture
def clones(tmp_path: Path) -> Clones:
    return Clones(tmp_path / "state", os.environ)


def url(shop: Path) -> str:
    return f"file://{shop}"


def test_a_clone_is_made_once_and_fetched_each_time(shop: Path, clones: Clones) -> None:
    first = clones.bring(url(shop), most_bytes=ROOM)
    assert (first.is_new, first.left) == (True, "")
    assert (first.top / "a.txt").read_text() == "one\n"
    now = commit(shop, "a.txt", "two\n")
    second = clones.bring(url(shop), most_bytes=ROOM)
    assert (second.is_new, second.top, second.commit) == (False, first.top, now)
    assert (first.top / "a.txt").read_text() == "two\n"
    assert git(first.top, "status", "--porcelain") == ""
    assert clones.url_of(first.top) == url(shop)
    assert clones.place_of(url(shop)) == first.top


@pytest.mark.parametrize("ref", ["side", "refs/heads/side", "origin/side", "v1", "main~1", "short"])
def test_a_ref_picks_what_is_checked_out(shop: Path, clones: Clones, ref: str) -> None:
    old = git(shop, "rev-parse", "HEAD")
    new = commit(shop, "a.txt", "two\n")
    assert clones.bring(url(shop), most_bytes=ROOM).commit == new
    found = clones.bring(url(shop), old[:9] if ref == "short" else ref, most_bytes=ROOM)
    assert (found.commit, (found.top / "a.txt").read_text()) == (old, "one\n")


def test_a_commit_of_no_branch_is_fetched_by_its_name(shop: Path, clones: Clones) -> None:
    git(shop, "checkout", "-q", "--detach")
    hidden = commit(shop, "a.txt", "hidden\n")
    git(shop, "update-ref", "refs/pull/7/head", hidden)
    git(shop, "checkout", "-q", "main")
    assert clones.bring(url(shop), "refs/pull/7/head", most_bytes=ROOM).commit == hidden
    with pytest.raises(UsageError, match="has no branch, tag or commit 'none'"):
        clones.bring(url(shop), "none", most_bytes=ROOM)
    with pytest.raises(UsageError, match="has no branch"):
        clones.bring(url(shop), "refs/heads/main:refs/heads/x", most_bytes=ROOM)


def test_a_branch_that_is_deleted_or_moved_back_is_so_in_the_clone(
    shop: Path, clones: Clones
) -> None:
    old = git(shop, "rev-parse", "HEAD")
    commit(shop, "a.txt", "two\n")
    clones.bring(url(shop), "side", most_bytes=ROOM)
    git(shop, "reset", "-q", "--hard", old)
    git(shop, "branch", "-D", "side")
    git(shop, "branch", "side/below")
    assert clones.bring(url(shop), most_bytes=ROOM).commit == old
    assert clones.bring(url(shop), "side/below", most_bytes=ROOM).commit == old
    with pytest.raises(UsageError):
        clones.bring(url(shop), "side", most_bytes=ROOM)


def test_a_repository_of_sha256_is_cloned(tmp_path: Path, clones: Clones) -> None:
    work = tmp_path / "long"
    work.mkdir()
    git(work, "init", "-q", "-b", "main", "--object-format=sha256")
    made = commit(work, "a.txt", "one\n")
    assert clones.bring(url(work), most_bytes=ROOM).commit == made


def test_a_repository_without_a_commit_is_refused_and_nothing_stays(
    tmp_path: Path, clones: Clones
) -> None:
    work = tmp_path / "empty"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    with pytest.raises(UsageError, match="has no commit yet"):
        clones.bring(url(work), most_bytes=ROOM)
    assert [*clones.place_of(url(work)).parent.parent.iterdir()] == []
    made = commit(work, "a.txt", "one\n")
    assert clones.bring(url(work), most_bytes=ROOM).commit == made


def test_work_of_a_user_in_a_clone_stays(shop: Path, clones: Clones) -> None:
    top = clones.bring(url(shop), most_bytes=ROOM).top
    (top / "a.txt").write_text("mine\n")
    new = commit(shop, "b.txt", "two\n")
    found = clones.bring(url(shop), most_bytes=ROOM)
    assert (found.commit, found.left) == (new, "it holds changes of its own")
    assert (top / "a.txt").read_text() == "mine\n"
    git(top, "checkout", "-q", "a.txt")
    (top / "b.txt").write_text("mine\n")
    assert clones.bring(url(shop), most_bytes=ROOM).left == "files lie in it that git does not know"
    assert (top / "b.txt").read_text() == "mine\n"
    (top / "b.txt").unlink()
    git(top, "branch", "patchyard/work")
    assert clones.bring(url(shop), most_bytes=ROOM).left == ""
    assert git(top, "branch", "--list", "patchyard/work")


def test_a_server_that_is_away_is_told_with_the_clone_of_earlier(
    shop: Path, clones: Clones
) -> None:
    top = clones.bring(url(shop), most_bytes=ROOM).top
    shop.rename(shop.with_name("moved"))
    with pytest.raises(Unavailable) as caught:
        clones.bring(url(shop), most_bytes=ROOM)
    assert "there is no repository" in caught.value.message
    assert str(top) in (caught.value.hint or "")
    assert (top / "a.txt").exists()


@pytest.mark.parametrize("lost", ["*.pack", "*.idx"])
def test_a_clone_that_lost_old_objects_gets_them_again(
    shop: Path, clones: Clones, lost: str
) -> None:
    top = clones.bring(url(shop), most_bytes=ROOM).top
    commit(shop, "a.txt", "two\n")
    clones.bring(url(shop), most_bytes=ROOM)
    oldest = min((top / ".git/objects/pack").glob(lost), key=lambda each: each.stat().st_mtime)
    oldest.unlink()
    clones.bring(url(shop), most_bytes=ROOM)
    assert git(top, "fsck", "--full", "--strict") == ""
    assert git(top, "rev-list", "--count", "HEAD") == "2"


def test_two_at_once_share_one_clone(shop: Path, tmp_path: Path) -> None:
    for number in range(20):
        commit(shop, f"file-{number}", f"{number}\n")

    def bring(_: int) -> tuple[bool, str]:
        found = Clones(tmp_path / "state", os.environ).bring(url(shop), most_bytes=ROOM)
        return found.is_new, found.commit

    with concurrent.futures.ThreadPoolExecutor() as threads:
        found = [*threads.map(bring, range(4))]
    assert sorted(new for new, _ in found) == [False, False, False, True]
    assert {made for _, made in found} == {git(shop, "rev-parse", "HEAD")}


SCRIPT = """
import os, sys
from pathlib import Path
from patchyard.clients.clones import Clones
Clones(Path(sys.argv[1]), os.environ).bring(sys.argv[2], most_bytes=1024**3)
"""


@pytest.mark.parametrize("is_new", [True, False])
def test_killed_at_any_moment_it_is_found_again(
    shop: Path, tmp_path: Path, clones: Clones, *, is_new: bool
) -> None:
    for number in range(300):
        (shop / f"file-{number}").write_bytes(os.urandom(3000))
    killed = 0
    for wait_ms in (*range(150, 900, 50), 1200):
        home = tmp_path / (f"state-{wait_ms}" if is_new else "state")
        if not is_new:
            clones.bring(url(shop), most_bytes=ROOM)
        head = commit(shop, "b.txt", f"{wait_ms}\n")
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(home), url(shop)],
            env={**REAL_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        time.sleep(wait_ms / 1000)
        killed += process.poll() is None
        process.kill()
        process.wait()
        found = Clones(home, os.environ).bring(url(shop), most_bytes=ROOM)
        assert (found.commit, found.left) == (head, "")
        assert git(found.top, "status", "--porcelain") == ""
        assert git(found.top, "fsck", "--full") == ""
        left = [*(found.top / ".git").rglob("*.lock"), *(found.top / ".git").rglob("tmp_*")]
        assert left == []
        assert [each for each in found.top.parent.parent.iterdir() if "new" in each.name] == []
    assert killed


def test_what_a_killed_git_left_is_taken_away(shop: Path, clones: Clones) -> None:
    top = clones.bring(url(shop), most_bytes=ROOM).top
    left = ("HEAD.lock", "index.lock", "refs/remotes/origin/main.lock", "objects/pack/tmp_pack_x")
    for name in left:
        (top / ".git" / name).write_text("half")
    (top / "a.txt").unlink()
    (top.parent / "changing").touch()  # killed in the middle of a checkout
    now = commit(shop, "b.txt", "two\n")
    found = clones.bring(url(shop), most_bytes=ROOM)
    assert (found.commit, found.left) == (now, "")
    assert (top / "a.txt").read_text() == "one\n"
    assert not any((top / ".git" / name).exists() for name in left)


def test_a_credential_opens_its_host_and_lies_nowhere(
    forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    basic = "Basic " + b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    forge.wanted = basic
    monkeypatch.setenv("FORGE_TOKEN", TOKEN)
    clones = Clones(tmp_path / "state", os.environ)
    address = f"{forge.url}/shop.git"
    with pytest.raises(Unavailable, match="does not give that repository"):
        clones.bring(address, most_bytes=ROOM)
    rules = ["FORGE_TOKEN@localhost", f"FORGE_TOKEN@{forge.place}"]
    assert forge.told == {""}
    assert clones.bring(address, rules=rules, most_bytes=ROOM).is_new
    assert forge.told == {"", basic}
    held = (each for each in (tmp_path / "state").rglob("*") if each.is_file())
    secrets = (TOKEN.encode(), basic.removeprefix("Basic ").encode())
    assert not [each for each in held if any(secret in each.read_bytes() for secret in secrets)]


def test_a_credential_follows_no_redirect(
    forge: Forge, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGE_TOKEN", TOKEN)
    _, context = served_as("localhost", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    with forging(shop.parent, context) as first:
        first.redirects["/"] = f"{forge.url}/"
        clones = Clones(tmp_path / "state", os.environ)
        rules = [f"FORGE_TOKEN@{first.place}"]
        with pytest.raises(Unavailable, match="lies elsewhere"):
            clones.bring(f"{first.url}/shop.git", rules=rules, most_bytes=ROOM)
    assert forge.seen == []


@pytest.mark.service("sshd")
def test_a_repository_is_cloned_over_ssh_by_the_users_configuration(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    with serving_ssh() as server:
        clones = Clones(tmp_path / "state", os.environ)
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1"):
            clones.bring(f"ssh://root@127.0.0.1:{server.port}{shop}", most_bytes=ROOM)
        server.configure(home)
        found = clones.bring(f"ssh://{HOST}{shop}", most_bytes=ROOM)
        assert (found.top / "a.txt").read_text() == "one\n"
        assert clones.bring(f"root@{HOST}:{shop}", most_bytes=ROOM).commit == found.commit
        server.configure(home, key="other_host_key.pub")
        with pytest.raises(Unavailable, match="the key of yonder is not known here"):
            clones.bring(f"ssh://{HOST}{shop}", most_bytes=ROOM)


def test_a_stranger_runs_nothing_and_writes_nowhere(
    tmp_path: Path, shop: Path, clones: Clones
) -> None:
    ran = tmp_path / "ran"
    (shop / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    (shop / ".gitmodules").write_text(
        f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "touch {ran}"\n\tupdate = !touch {ran}\n'
    )
    (shop / ".gitconfig").write_text(f"[core]\n\tfsmonitor = touch {ran}\n")
    (shop / "link").symlink_to(tmp_path)
    head = commit(shop, "b.txt", "two\n")
    hooks = shop / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "post-merge", "update"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (hooks / name).chmod(0o755)
    git(shop, "config", "uploadpack.packObjectsHook", f"touch {ran}; false")
    for _ in range(2):
        found = clones.bring(url(shop), most_bytes=ROOM)
    assert found.commit == head
    assert not ran.exists()
    assert (found.top / "link").is_symlink()
    assert not (found.top / ".git/hooks").exists()


def object_of(folder: Path, kind: str, content: bytes) -> str:
    """Store an object as a stranger's program can, without git's own looks at it."""
    words = ["git", "hash-object", "-t", kind, "-w", "--literally", "--stdin"]
    done = subprocess.run(words, cwd=folder, input=content, capture_output=True, check=True)
    return done.stdout.decode().strip()


def planted(shop: Path, *, tree: str) -> None:
    made = git(shop, "commit-tree", "-m", "planted", tree)
    git(shop, "update-ref", "refs/heads/main", made)


def row(mode: str, name: str, made: str) -> bytes:
    return f"{mode} {name}\0".encode() + bytes.fromhex(made)


@pytest.mark.parametrize("name", [".git", ".GIT"])
def test_a_tree_with_git_in_it_is_named_as_that(shop: Path, clones: Clones, name: str) -> None:
    clones.bring(url(shop), most_bytes=ROOM)
    blob = object_of(shop, "blob", b"[core]\n\tfsmonitor = touch ran\n")
    inner = object_of(shop, "tree", row("100644", "config", blob))
    planted(shop, tree=object_of(shop, "tree", row("40000", name, inner)))
    with pytest.raises(UsageError) as caught:
        clones.bring(url(shop), most_bytes=ROOM)
    said = f"holds the path '{name}/config' (a component that some systems take for .git)"
    assert said in caught.value.message
    top = clones.place_of(url(shop))
    assert "fsmonitor" not in (top / ".git/config").read_text()
    assert clones.bring(url(shop), "side", most_bytes=ROOM).left == ""


def test_a_tree_that_grows_without_end_is_refused_before_a_file_is_made(
    shop: Path, clones: Clones
) -> None:
    made, mode = object_of(shop, "blob", b"x" * 1000), "100644"
    for _ in range(9):  # a thousand million files in some objects
        rows = b"".join(row(mode, f"f{number}", made) for number in range(10))
        made, mode = object_of(shop, "tree", rows), "40000"
    planted(shop, tree=made)
    with pytest.raises(Unavailable, match="is larger than there is room for"):
        clones.bring(url(shop), most_bytes=10_000_000)
    assert not clones.place_of(url(shop)).exists()


def test_a_clone_for_which_there_is_no_room_leaves_nothing(shop: Path, clones: Clones) -> None:
    (shop / "large").write_bytes(os.urandom(3_000_000))
    commit(shop, "b.txt", "two\n")
    with pytest.raises(Unavailable, match="bytes there is room for"):
        clones.bring(url(shop), most_bytes=1_000_000)
    assert not clones.place_of(url(shop)).exists()
    assert clones.bring(url(shop), most_bytes=ROOM).is_new


def test_what_is_fetched_often_is_packed_into_one(
    shop: Path, clones: Clones, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchyard.clients.clones.MOST_PACKS", 3)
    for number in range(6):
        commit(shop, "a.txt", f"{number}\n")
        top = clones.bring(url(shop), most_bytes=ROOM).top
    kept = json.loads((top.parent / "packs").read_text())
    assert len(kept) <= 6
    assert git(top, "fsck", "--full") == ""


def test_only_a_checkout_in_its_own_place_is_a_clone(shop: Path, clones: Clones) -> None:
    top = clones.bring(url(shop), most_bytes=ROOM).top
    home = top.parents[2]
    assert is_clone(home, top)
    assert not is_clone(home, shop)
    assert clones.url_of(shop) == ""
