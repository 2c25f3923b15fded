import os
import shutil
import subprocess
from pathlib import Path

import pytest

from laboratory import Lab, bytes_below, fingerprint, git, lab_at
from patchyard.contracts.trees import whole
from patchyard.domain.errors import UsageError
from patchyard.workspaces.pinned import GitTrees

pytestmark = pytest.mark.anyio


async def listing(lab: Lab, ref: str | None = None) -> dict[str, tuple[str, bytes]]:
    base = await lab.base(ref)
    return bytes_below(await lab.trees.checkout(base))


async def test_the_base_is_the_checkout_as_it_is_and_the_checkout_stays_bit_identical(
    copying: Lab,
) -> None:
    copying.write({"a": "1\n", "d/b": "2\n", "gone": "3\n", ".gitignore": "*.o\nbuild/\n"})
    copying.commit()
    copying.write({"a": "dirty\n", "new": "n\n", "x.o": "o", "build/y": "y", "staged": "s\n"})
    (copying.repo / "gone").unlink()
    (copying.repo / "ln").symlink_to("a")
    (copying.repo / "d/b").chmod(0o755)
    git(copying.repo, "add", "staged")
    before = fingerprint(copying.repo)

    base = await copying.base()
    seen = bytes_below(await copying.trees.checkout(base))

    assert fingerprint(copying.repo) == before
    assert seen == {
        ".gitignore": ("-", b"*.o\nbuild/\n"),
        "a": ("-", b"dirty\n"),
        "d/b": ("x", b"2\n"),
        "ln": ("link", b"a"),
        "new": ("-", b"n\n"),
        "staged": ("-", b"s\n"),
    }
    assert (base.branch, base.uncommitted) == ("main", 6)


async def test_a_clean_checkout_has_the_commits_own_tree(copying: Lab) -> None:
    copying.write({"a": "1\n"})
    commit = copying.commit()

    base = await copying.base()

    assert base.commit == commit
    assert base.tree == git(copying.repo, "rev-parse", "HEAD^{tree}").strip()
    assert base.uncommitted == 0
    os.utime(copying.repo / "a", (1, 1))  # other times, same bytes
    assert (await copying.base()).uncommitted == 0


async def test_a_ref_and_head_take_the_commit_and_nothing_else(copying: Lab) -> None:
    copying.write({"a": "1\n"})
    first = copying.commit()
    copying.write({"a": "2\n"})
    copying.commit()
    copying.write({"a": "3\n", "new": "x"})

    assert await listing(copying, first) == {"a": ("-", b"1\n")}
    assert await listing(copying, "head") == {"a": ("-", b"2\n")}
    with pytest.raises(UsageError, match="no commit 'nope'"):
        await copying.base("nope")
    with pytest.raises(UsageError):
        await copying.base("--output=/tmp/x")


@pytest.mark.parametrize(
    "name",
    ["-rf", "with space", "new\nline", 'quo"te', "back\\slash", "\udcff\udcfe", "ünï", ":(x)"],
)
async def test_odd_names_survive_to_the_checkout_and_back(copying: Lab, name: str) -> None:
    copying.write({"a": "1\n"})
    copying.commit()
    (copying.repo / name).write_bytes(b"odd\n")
    base = await copying.base()
    assert (await copying.trees.checkout(base) / name).read_bytes() == b"odd\n"
    copying.commit()
    base = await copying.base()
    changeset = await copying.changed(base, {name: "changed\n", f"sub/{name}": "two\n"})

    patch = await whole(copying.trees.diff(base, changeset))

    assert {change.path for change in changeset.changes} == {name, f"sub/{name}"}
    git(copying.repo, "apply", "--binary", "-", stdin=patch)
    assert (copying.repo / name).read_bytes() == b"changed\n"
    assert (copying.repo / "sub" / name).read_bytes() == b"two\n"


async def test_index_flags_are_honoured(copying: Lab) -> None:
    copying.write({"sparse": "s\n", "assumed": "a\n", "plain": "p\n"})
    copying.commit()
    git(copying.repo, "update-index", "--skip-worktree", "sparse")
    git(copying.repo, "update-index", "--assume-unchanged", "assumed")
    (copying.repo / "sparse").unlink()
    copying.write({"intended": "i\n"})
    git(copying.repo, "add", "-N", "intended")

    assert await listing(copying) == {
        "assumed": ("-", b"a\n"),
        "intended": ("-", b"i\n"),
        "plain": ("-", b"p\n"),
        "sparse": ("-", b"s\n"),
    }


async def test_a_staged_blob_behind_a_sparse_entry_is_taken_along(copying: Lab) -> None:
    copying.write({"a": "1\n", "b": "1\n"})
    copying.commit()
    copying.write({"a": "2\n"})
    git(copying.repo, "add", "a")
    git(copying.repo, "update-index", "--skip-worktree", "a")
    (copying.repo / "a").unlink()

    assert (await listing(copying))["a"] == ("-", b"2\n")


async def test_a_split_index_and_a_linked_worktree_are_read(copying: Lab, tmp_path: Path) -> None:
    copying.write({"a": "1\n", "b": "2\n"})
    copying.commit()
    git(copying.repo, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    git(tmp_path / "linked", "update-index", "--split-index")
    (tmp_path / "linked" / "a").write_text("linked\n")
    before = fingerprint(copying.repo)

    base = await copying.trees.snapshot(tmp_path / "linked")

    assert base.branch == "side"
    assert bytes_below(await copying.trees.checkout(base))["a"] == ("-", b"linked\n")
    assert fingerprint(copying.repo) == before


async def test_kinds_that_changed_are_followed(copying: Lab) -> None:
    copying.write({"file": "f\n", "folder/x": "x\n", "link/x": "l\n"})
    copying.commit()
    (copying.repo / "file").unlink()
    copying.write({"file/inner": "i\n"})
    shutil.rmtree(copying.repo / "folder")
    copying.write({"folder": "now a file\n"})
    shutil.rmtree(copying.repo / "link")
    (copying.repo / "link").symlink_to("/etc")

    assert await listing(copying) == {
        "file/inner": ("-", b"i\n"),
        "folder": ("-", b"now a file\n"),
        "link": ("link", b"/etc"),
    }


async def test_submodules_stay_links_and_nested_repositories_are_left_out(copying: Lab) -> None:
    copying.write({"a": "1\n"})
    commit = copying.commit()
    (copying.repo / "sub").mkdir()
    git(copying.repo / "sub", "init", "-q")
    (copying.repo / "sub" / "f").write_text("f")
    git(copying.repo, "update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
    git(copying.repo, "commit", "-qm", "sub")
    nested = copying.repo / "deep" / "nested"
    nested.mkdir(parents=True)
    git(nested, "init", "-q")
    (nested / "f").write_text("f")
    os.mkfifo(copying.repo / "pipe")

    base = await copying.base()

    assert base.submodules == {"sub": commit}
    assert base.left_out == ("deep/nested",)
    assert bytes_below(await copying.trees.checkout(base)) == {"a": ("-", b"1\n")}


async def test_the_users_excludes_are_read_as_data(copying: Lab) -> None:
    copying.write({"a": "1\n"})
    copying.commit()
    home = Path(os.environ["HOME"])
    (home / ".gitconfig").write_text(
        "[core]\n\texcludesFile = ~/ignored\n[user]\n\tname = Ann Ö\n\temail = a@example.org\n"
    )
    (home / "ignored").write_text("*.swp\n")
    (copying.repo / ".git/info/exclude").write_text("private\n")
    copying.write({"x.swp": "s", "private": "p", "public": "p\n"})
    trees = GitTrees(copying.trees.home, uid=copying.trees.uid, gid=copying.trees.gid)

    base = await trees.snapshot(copying.repo)

    assert set(bytes_below(await trees.checkout(base))) == {"a", "public"}
    assert base.author == "Ann Ö <a@example.org>"
    changeset = await copying.changed(base, {"y.swp": "s", "z": "z\n"})
    assert [change.path for change in changeset.changes] == ["z"]


async def test_nothing_the_repository_configures_is_run(copying: Lab, tmp_path: Path) -> None:
    copying.write({"a.x": "1\n", ".gitattributes": "*.x filter=evil diff=evil\n"})
    copying.commit()
    run = tmp_path / "run"
    run.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    run.chmod(0o755)
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "diff.evil.command",
                "diff.evil.textconv", "core.sshCommand", "uploadpack.packObjectsHook",
                "core.pager"):  # fmt: skip
        git(copying.repo, "config", key, str(run))
    git(copying.repo, "config", "core.hooksPath", str(tmp_path))
    (tmp_path / "ran").unlink(missing_ok=True)
    copying.write({"b.x": "2\n"})

    base = await copying.base()
    changeset = await copying.changed(base, {"a.x": "3\n", "c.x": "4\n"})
    await whole(copying.trees.diff(base, changeset))

    assert not (tmp_path / "ran").exists()


async def test_a_repository_inside_a_shallow_clone_works(copying: Lab, tmp_path: Path) -> None:
    for text in ("1\n", "2\n", "3\n"):
        copying.write({"a": text})
        copying.commit()
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{copying.repo}", "shallow")

    base = await copying.trees.snapshot(tmp_path / "shallow")
    ref, root = await copying.workspace(base)

    if os.geteuid() == 0:
        git(root, "config", "--global", "safe.directory", "*")
    assert git(root, "rev-list", "--count", "HEAD").strip() == "2"
    assert git(root, "status", "--porcelain") == ""
    await copying.workspaces.remove(ref)


async def test_a_detached_head_has_no_branch(copying: Lab) -> None:
    copying.write({"a": "1\n"})
    copying.commit()
    git(copying.repo, "checkout", "-q", "--detach")

    assert (await copying.base()).branch is None


async def test_a_sha256_repository_works(tmp_path: Path) -> None:
    repo = tmp_path / "r"
    repo.mkdir()
    git(repo, "init", "-q", "--object-format=sha256")
    (repo / "a").write_text("1\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "x")
    (repo / "b").write_text("2\n")

    base = await GitTrees(tmp_path / "home").snapshot(repo)

    assert len(base.tree) == 64
    git(repo, "add", ".")
    assert git(repo, "write-tree").strip() == base.tree


async def test_a_later_commit_borrows_from_the_earlier_history(copying: Lab) -> None:
    copying.write({"a": "1\n"})
    copying.commit()
    first = await copying.base()
    copying.write({"a": "2\n"})
    copying.commit()
    git(copying.repo, "checkout", "-q", "--orphan", "other")
    copying.commit("unrelated")
    unrelated = await copying.base()
    git(copying.repo, "checkout", "-q", "main")
    second = await copying.base()

    lent = (await copying.trees.history(second)) / "objects/info/alternates"
    assert str(first.commit) in lent.read_text()
    assert str(unrelated.commit) not in lent.read_text()
    git(await copying.trees.history(second), "fsck", "--full")


@pytest.mark.parametrize("name", ["state", "ä b/state"])
async def test_a_home_within_the_checkout_is_no_part_of_a_base(tmp_path: Path, name: str) -> None:
    lab = lab_at(tmp_path, "copy")
    lab.write({"a": "1\n"})
    lab.commit()
    within = GitTrees(lab.repo / name, uid=lab.trees.uid, gid=lab.trees.gid)
    with pytest.raises(UsageError, match="lies in the checkout") as refused:
        await within.snapshot(lab.repo)
    assert "PATCHYARD_HOME" in refused.value.hint
    lab.write({".gitignore": "state/\n"})
    base = await within.snapshot(lab.repo)
    assert all(not path.startswith(name) for path in within.entries(base, base.tree))
    assert (await within.snapshot(lab.repo, ref="HEAD")).commit == base.commit


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        ("missing", "no folder"),
        ("plain", "not in a git repository"),
        ("bare", "bare"),
        ("empty", "no commit yet"),
        ("merging", "merge is not finished"),
    ],
)
async def test_what_cannot_be_a_base_is_refused_with_the_cure(
    copying: Lab, tmp_path: Path, prepare: str, said: str
) -> None:
    place = tmp_path / "place"
    if prepare != "missing":
        place.mkdir()
    if prepare == "bare":
        git(place, "init", "-q", "--bare")
    if prepare == "empty":
        git(place, "init", "-q")
    if prepare == "merging":
        place = copying.repo
        copying.write({"a": "0\n"})
        copying.commit()
        git(place, "checkout", "-q", "-b", "x")
        copying.write({"a": "1\n"})
        copying.commit()
        git(place, "checkout", "-q", "main")
        copying.write({"a": "2\n"})
        copying.commit()
        with pytest.raises(AssertionError):
            git(place, "merge", "-q", "x")

    with pytest.raises(UsageError, match=said) as caught:
        await copying.trees.snapshot(place)

    assert caught.value.hint
    assert str(place) in caught.value.message or prepare == "merging"


@pytest.mark.service("root")
async def test_a_repository_of_somebody_else_is_read_without_a_question(copying: Lab) -> None:
    copying.write({"a": "1\n"})
    copying.commit()
    for place in [copying.repo, *copying.repo.rglob("*")]:
        os.lchown(place, 4321, 4321)

    assert (await copying.base()).uncommitted == 0


async def test_edits_of_the_user_after_the_snapshot_are_not_seen(copying: Lab) -> None:
    copying.write({"a": "1\n"})
    copying.commit()
    base = await copying.base()
    ref, root = await copying.workspace(base)
    copying.write({"a": "later\n", "b": "later\n"})
    copying.commit()
    git(copying.repo, "gc", "-q", "--prune=now")

    assert bytes_below(root) == {"a": ("-", b"1\n")}
    assert (await copying.workspaces.capture(base, ref)).is_empty
    assert bytes_below(await copying.trees.checkout(base)) == {"a": ("-", b"1\n")}


async def test_a_base_is_built_by_linking_from_the_nearest_and_has_its_own_bytes(
    copying: Lab,
) -> None:
    copying.write({f"f{number}": f"{number}\n" for number in range(20)})
    copying.commit()
    first = await copying.trees.checkout(await copying.base())
    copying.write({"f1": "X\n"})
    second = await copying.trees.checkout(await copying.base())

    assert (first / "f1").read_text() == "1\n"
    assert (second / "f1").read_text() == "X\n"
    assert (first / "f2").stat().st_ino == (second / "f2").stat().st_ino
    assert int((first / "f1").stat().st_mtime) != int((second / "f1").stat().st_mtime)


def object_of(repo: Path, kind: str, content: bytes) -> bytes:
    """Store an object as a stranger's program can, without git's own looks at it."""
    words = ["git", "hash-object", "-t", kind, "-w", "--literally", "--stdin"]
    return bytes.fromhex(subprocess.check_output(words, cwd=repo, input=content).decode())


def planted(repo: Path, name: str) -> str:
    """Commit a folder with that name."""
    blob = object_of(repo, "blob", b"[core]\n")
    inner = object_of(repo, "tree", b"100644 config\0" + blob)
    tree = object_of(repo, "tree", b"40000 " + name.encode() + b"\0" + inner)
    return git(repo, "commit-tree", "-m", "x", tree.hex()).strip()


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", ".g\u200cit", ".."])
async def test_a_commit_with_a_name_that_git_never_writes_is_refused_by_that_name(
    lab: Lab, name: str
) -> None:
    lab.write({"a": "a\n"})
    lab.commit()
    commit = planted(lab.repo, name)

    with pytest.raises(UsageError, match="git itself writes into no checkout") as caught:
        await lab.base(commit)

    assert f"{commit[:12]} of {lab.repo} holds the path" in caught.value.message
