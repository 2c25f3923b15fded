"""Repositories as people have them: each of these goes through the whole job."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mainjob.driver import Answer, Desk, bits, git, shell, write
from mainjob.traps import LFS_POINTER

pytestmark = pytest.mark.service("bubblewrap")


def grown(desk: Desk, commits: int = 4) -> Desk:
    for number in range(commits):
        (desk.repo / "a.txt").write_text(f"one\ntwo\n{number}\n")
        git(desk.repo, "commit", "-q", "-am", f"number {number}")
    return desk


def elsewhere(desk: Desk, name: str = "other") -> Desk:
    return replace(desk, repo=desk.folder / name)


def shallow(desk: Desk) -> Desk:
    made = elsewhere(grown(desk))
    git(desk.folder, "clone", "-q", "--depth", "2", desk.repo.as_uri(), str(made.repo))
    return made


def detached(desk: Desk) -> Desk:
    git(grown(desk).repo, "checkout", "-q", "--detach", "HEAD~1")
    return desk


def linked(desk: Desk) -> Desk:
    made = elsewhere(grown(desk))
    git(desk.repo, "worktree", "add", "-q", "-b", "side", str(made.repo))
    return made


def separate(desk: Desk) -> Desk:
    """The git directory lies elsewhere and `.git` is a file."""
    git(desk.repo, "init", "-q", "--separate-git-dir", str(desk.folder / "git-dir"))
    return desk


def symlinked(desk: Desk) -> Desk:
    (desk.repo / ".git").rename(desk.folder / "git-dir")
    (desk.repo / ".git").symlink_to(desk.folder / "git-dir")
    return desk


def with_submodule(desk: Desk) -> Desk:
    inner = desk.folder / "inner"
    git(desk.folder, "init", "-q", str(inner))
    git(inner, "commit", "-q", "--allow-empty", "-m", "inner")
    git(desk.repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "lib")
    git(desk.repo, "commit", "-q", "-m", "with a submodule")
    return desk


def inside_a_submodule(desk: Desk) -> Desk:
    made = with_submodule(desk)
    (made.repo / "lib/a.txt").write_text("one\ntwo\n")
    git(made.repo / "lib", "add", "a.txt")
    git(made.repo / "lib", "commit", "-q", "-m", "a")
    return replace(made, repo=made.repo / "lib")


def reached_by_a_link(desk: Desk) -> Desk:
    made = elsewhere(desk)
    made.repo.symlink_to(desk.repo)
    return made


def below_odd_folders(desk: Desk) -> Desk:
    made = elsewhere(desk, 'it\'s a "place", with: $odd\\ names; café')
    desk.repo.rename(made.repo)
    return made


def sparse(desk: Desk) -> Desk:
    (desk.repo / "far").mkdir()
    (desk.repo / "far/file").write_text("far\n")
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "far")
    git(desk.repo, "sparse-checkout", "set", "near")
    assert not (desk.repo / "far").exists()
    return desk


def without_a_file(desk: Desk) -> Desk:
    git(desk.repo, "rm", "-q", "a.txt")
    git(desk.repo, "commit", "-q", "--allow-empty", "-m", "nothing there")
    (desk.repo / "a.txt").write_text("one\ntwo\n")
    return desk


def with_sha256(desk: Desk) -> Desk:
    made = elsewhere(desk)
    git(desk.folder, "init", "-q", "--object-format=sha256", str(made.repo))
    (made.repo / "a.txt").write_text("one\ntwo\n")
    git(made.repo, "add", "-A")
    git(made.repo, "commit", "-q", "-m", "start")
    return made


def with_a_split_index(desk: Desk) -> Desk:
    git(desk.repo, "update-index", "--split-index", "--untracked-cache")
    (desk.repo / "second").write_text("2\n")
    git(desk.repo, "add", "second")
    return desk


KINDS: dict[str, Callable[[Desk], Desk]] = {
    each.__name__.replace("_", " "): each
    for each in (
        *(shallow, detached, linked, separate, symlinked, with_submodule, inside_a_submodule),
        *(reached_by_a_link, below_odd_folders, sparse, without_a_file, with_sha256),
        with_a_split_index,
    )
}


def through(desk: Desk) -> Answer:
    """Plan, execute, prove and apply an edit; the checkout is left alone until the apply."""
    before = bits(desk.repo)
    said = desk.run(
        shell("git status --porcelain > .git/said && git log -1 --format=%s && cat a.txt"),
        shell("echo more >> a.txt && mkdir -p new && echo new > 'new/a file'"),
        options=["--validate", "grep -q more a.txt"],
    )
    assert said.code == 0, said.message
    assert said.changed == {"a.txt": "modified", "new/a file": "added"}
    assert bits(desk.repo) == before
    return said


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_job_works_in_a_repository_that_is(desk: Desk, kind: str) -> None:
    made = KINDS[kind](desk)
    text = (made.repo / "a.txt").read_text()

    through(made)

    patch = made.folder / "the.patch"
    patch.write_bytes(made.agents("plan", "diff", is_json=False).out)
    git(made.repo, "apply", "--check", "--binary", str(patch))
    assert made.agents("plan", "apply").code == 0
    assert (made.repo / "a.txt").read_text() == text + "more\n"
    answer = made.agents("plan", "unapply")
    assert answer.code == 0, answer.message
    assert (made.repo / "a.txt").read_text() == text
    answer = made.agents("plan", "apply", "--to", "branch", "--name", "side-branch")
    assert answer.code == (3 if kind == "without a file" else 0), answer.message
    if answer.code == 0:
        assert git(made.repo, "show", "side-branch:a.txt") == text + "more\n"


def test_an_ordinary_user_works_in_a_shallow_clone(plain_desk: Desk) -> None:
    Path(os.environ["HOME"], ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    made = shallow(plain_desk)
    if plain_desk.user is not None:
        for place in (made.repo, *made.repo.rglob("*")):
            os.lchown(place, plain_desk.user, plain_desk.user)

    through(made)


def test_line_endings_stay_as_the_user_has_them(desk: Desk) -> None:
    repo = desk.repo
    git(repo, "config", "core.autocrlf", "true")
    (repo / ".gitattributes").write_text("*.sh eol=lf\n*.bat eol=crlf\n*.dat -text\n")
    (repo / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (repo / "x.sh").write_bytes(b"one\ntwo\n")
    (repo / "x.bat").write_bytes(b"one\r\ntwo\r\n")
    (repo / "x.dat").write_bytes(b"one\r\ntwo\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "endings")
    assert git(repo, "show", "HEAD:a.txt") == "one\ntwo\n"

    said = desk.run(
        shell("for f in a.txt x.bat; do printf 'three\\r\\n' >> $f; done; echo three >> x.sh")
    )

    assert said.code == 0, said.message
    assert said.data["base"]["uncommitted"] == 0
    assert set(said.changed) == {"a.txt", "x.bat", "x.sh"}
    assert desk.agents("plan", "apply").code == 0
    assert (repo / "a.txt").read_bytes() == b"one\r\ntwo\r\nthree\r\n"
    assert (repo / "x.sh").read_bytes() == b"one\ntwo\nthree\n"
    assert desk.agents("plan", "unapply").code == 0
    answer = desk.agents("plan", "apply", "--to", "merge")
    assert answer.code == 0, answer.message
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "show", "HEAD:a.txt") == "one\ntwo\nthree\n"


def test_lfs_pointers_stay_pointers(desk: Desk) -> None:
    (desk.repo / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    (desk.repo / "x.bin").write_text(LFS_POINTER)
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "pointer")

    said = desk.run(shell("grep -q git-lfs x.bin && echo seen > result"))

    assert said.code == 0, said.message
    assert said.changed == {"result": "added"}
    assert said.data["base"]["uncommitted"] == 0


def test_a_repository_within_the_checkout_is_told_to_be_no_part_of_the_base(desk: Desk) -> None:
    git(desk.repo, "init", "-q", "inner")
    (desk.repo / "inner" / "own.txt").write_text("own\n")

    said = desk.run(shell("ls inner > result || true"))

    assert said.code == 0, said.message
    assert said.data["base"]["left_out"] == ["inner"]
    assert "without inner" in desk.agents("plan", "status", is_json=False).out.decode()


def test_the_users_own_ignore_rules_count(desk: Desk) -> None:
    (desk.home / ".config/git").mkdir(parents=True)
    (desk.home / ".config/git/ignore").write_text("*.own\n")
    (desk.repo / ".git/info/exclude").write_text("*.local\n")
    (desk.repo / ".gitignore").write_text("*.log\n!keep.log\n")
    for name in ("x.own", "x.local", "x.log", "keep.log", "seen"):
        (desk.repo / name).write_text(f"{name}\n")

    said = desk.run(shell("ls x.* || ls > result; touch y.own y.local y.log"))

    assert said.code == 0, said.message
    assert said.data["base"]["uncommitted"] == 3
    assert said.changed == {"result": "added"}
    other = desk.folder / "excludes"
    other.write_text("seen\n")
    git(desk.repo, "config", "core.excludesFile", str(other))
    assert desk.run(shell("ls seen || echo gone > result")).changed == {"result": "added"}


@pytest.mark.service("root")
def test_a_repository_of_somebody_else_is_worked_on_and_left_to_them(desk: Desk) -> None:
    for place in (desk.repo, *desk.repo.rglob("*")):
        os.lchown(place, 4321, 4321)

    through(desk)

    assert desk.agents("plan", "apply").code == 0
    assert desk.agents("plan", "apply", "--to", "branch").code == 0
    owners = {place.lstat().st_uid for place in (desk.repo, *desk.repo.rglob("*"))}
    assert owners == {4321}


@pytest.mark.service("root")
def test_a_repository_of_somebody_else_can_be_read_by_an_ordinary_user(plain_desk: Desk) -> None:
    for place in (plain_desk.repo, *plain_desk.repo.rglob("*")):
        os.lchown(place, 4321, 4321)

    through(plain_desk)

    refused = plain_desk.agents("plan", "apply")
    assert refused.code in {1, 3}
    assert str(plain_desk.repo) in refused.message
    assert (plain_desk.repo / "a.txt").read_text() == "one\ntwo\n"


def test_a_commit_or_branch_is_a_base_as_well_as_the_checkout(desk: Desk) -> None:
    grown(desk)
    (desk.repo / "a.txt").write_text("dirt\n")

    old = desk.run(shell("cp a.txt result"), options=["--ref", "HEAD~2"])
    head = desk.run(write("made", "1\n"), options=["--base", "head"])

    assert old.data["base"]["commit"] == git(desk.repo, "rev-parse", "HEAD~2").strip()
    assert head.data["base"]["uncommitted"] == 0
    assert head.changed == {"made": "added"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_file_of_two_gibibytes_comes_along(desk: Desk) -> None:
    with (desk.repo / "huge").open("wb") as file:
        file.truncate(2 * 1024**3 + 1)
        file.write(b"start")

    said = desk.run(shell("test $(stat -c %s huge) = 2147483649 && echo yes > result"))

    assert said.code == 0, said.message
    assert said.changed == {"result": "added"}
    assert desk.agents("plan", "apply").code == 0
    used = subprocess.run(["du", "-sm", desk.folder], check=True, capture_output=True)
    assert int(used.stdout.split()[0]) < 10_000


def test_a_path_from_a_folder_below_means_the_whole_checkout(desk: Desk) -> None:
    (desk.repo / "deep/down").mkdir(parents=True)
    below = replace(desk, repo=desk.repo / "deep/down")

    said = below.run(shell("echo more >> a.txt"))

    assert said.code == 0, said.message
    assert said.changed == {"a.txt": "modified"}
    assert below.agents("plan", "apply").code == 0
    assert Path(desk.repo / "a.txt").read_text() == "one\ntwo\nmore\n"
