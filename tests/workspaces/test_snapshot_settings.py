"""Bases from checkouts that git reads by settings of its own, or cannot read."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from laboratory import Lab, bytes_below, git, lab_at
from patchyard.clients.git_files import MAX_INDEX_BYTES
from patchyard.clients.reader import Reader
from patchyard.clients.treewriter import ChangedMeanwhile
from patchyard.domain.changeset import Base
from patchyard.domain.errors import UsageError, WorkFailed
from patchyard.domain.keyfiles import touched_key_files
from patchyard.workspaces import pinned, snapshot, view
from patchyard.workspaces.pinned import GitTrees

pytestmark = pytest.mark.anyio


async def modes(lab: Lab) -> dict[str, str]:
    base = await lab.base()
    listed = await lab.trees.checkout(base)
    return {path: kind for path, (kind, _) in bytes_below(listed).items()}


async def test_modes_come_from_the_index_where_the_file_system_has_none(copying: Lab) -> None:
    copying.write({"run.sh": "#!/bin/sh\n", "a.txt": "a\n"})
    (copying.repo / "run.sh").chmod(0o755)
    copying.commit()
    git(copying.repo, "config", "core.fileMode", "false")
    (copying.repo / "run.sh").chmod(0o644)
    (copying.repo / "a.txt").chmod(0o755)
    assert (await copying.base()).uncommitted == 0
    copying.write({"new.sh": "#!/bin/sh\n", "run.sh": "#!/bin/sh\necho\n"})
    (copying.repo / "new.sh").chmod(0o755)
    copying.write({"a.txt": "b\n"})

    assert await modes(copying) == {"run.sh": "x", "a.txt": "-", "new.sh": "-"}
    assert (await copying.base()).uncommitted == 3


def test_the_index_is_seen_with_its_own_time(copying: Lab) -> None:
    """By it git knows what was written in the same second, and looks inside."""
    copying.write({"a": "1\n"})
    copying.commit()
    index = copying.repo / ".git/index"
    os.utime(index, (1_000_000_000, 1_000_000_000))
    with view.opened(copying.trees.open_store(copying.repo)) as shown:
        assert (shown.folder / "index").stat().st_mtime == 1_000_000_000
        assert (shown.folder / "index").read_bytes() == index.read_bytes()


async def test_of_an_index_that_grows_no_more_is_read_than_it_had(
    copying: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying.write({"a": "1\n"})
    copying.commit()
    index = copying.repo / ".git/index"
    before = index.read_bytes()

    def grown(place: Path, *_: object, **__: object) -> None:
        with Path(place).open("ab") as file:
            file.write(b"more")

    monkeypatch.setattr(view, "require_plain", grown)
    with view.opened(copying.trees.open_store(copying.repo)) as shown:
        assert (shown.folder / "index").read_bytes() == before
    index.write_bytes(before)
    monkeypatch.setattr(view, "require_plain", lambda *_, **__: os.truncate(index, 20))
    with pytest.raises(ChangedMeanwhile), view.opened(copying.trees.open_store(copying.repo)):
        pass


async def test_links_stay_links_where_the_file_system_has_none(copying: Lab) -> None:
    copying.write({"a.txt": "a\n"})
    (copying.repo / "ln").symlink_to("a.txt")
    copying.commit()
    git(copying.repo, "config", "core.symlinks", "false")
    (copying.repo / "ln").unlink()
    (copying.repo / "ln").write_text("b.txt")

    base = await copying.base()

    seen = bytes_below(await copying.trees.checkout(base))
    assert seen["ln"] == ("link", b"b.txt")
    assert base.uncommitted == 1


async def test_a_file_taken_out_of_the_index_and_ignored_is_not_in_the_base(copying: Lab) -> None:
    copying.write({"a": "a\n", "kept.log": "log\n"})
    copying.commit()
    git(copying.repo, "rm", "-q", "--cached", "kept.log")
    copying.write({".gitignore": "*.log\n"})

    assert set(await modes(copying)) == {"a", ".gitignore"}


async def test_a_name_that_git_takes_for_its_own_is_left_out(copying: Lab) -> None:
    copying.write({"a": "a\n"})
    copying.commit()
    copying.write({"git~1": "g\n", "deep/.Git": "g\n"})

    assert set(await modes(copying)) == {"a"}


async def test_a_file_added_and_gone_again_is_not_in_the_base(copying: Lab) -> None:
    copying.write({"a": "a\n"})
    copying.commit()
    copying.write({"added": "x\n"})
    git(copying.repo, "add", "added")
    (copying.repo / "added").unlink()

    assert set(await modes(copying)) == {"a"}


async def test_what_this_user_cannot_read_is_named_with_the_cure(ordinary: Path) -> None:
    lab = lab_at(ordinary, "copy")
    lab.write({"a": "a\n", "d/b": "b\n"})
    lab.commit()
    (lab.repo / "a").write_text("other\n")
    (lab.repo / "a").chmod(0)
    with pytest.raises(UsageError, match="a cannot be read") as caught:
        await lab.base()
    assert "--base head" in caught.value.hint
    (lab.repo / "a").chmod(0o644)
    index = lab.repo / ".git/index"
    index.chmod(0)
    with pytest.raises(UsageError, match="index cannot be read"):
        await lab.base()
    index.chmod(0o644)
    lab.repo.parent.chmod(0o711)
    (lab.repo / "d").chmod(0)
    with pytest.raises(UsageError, match="cannot be read"):
        await lab.trees.snapshot(lab.repo / "d/deep")
    (lab.repo / "d").chmod(0o755)


async def test_an_edit_of_the_same_size_with_the_old_time_is_seen_as_git_sees_it(
    copying: Lab,
) -> None:
    copying.write({"a": "1\n"})
    os.utime(copying.repo / "a", (1_000_000_000, 1_000_000_000))
    copying.commit()
    copying.write({"a.new": "2\n"})
    os.utime(copying.repo / "a.new", (1_000_000_000, 1_000_000_000))
    (copying.repo / "a.new").replace(copying.repo / "a")

    base = await copying.base()

    checkout = await copying.trees.checkout(base)
    assert ((checkout / "a").read_text(), base.uncommitted) == ("2\n", 1)
    for key, value in (("core.checkStat", "minimal"), ("core.trustctime", "false")):
        git(copying.repo, "config", key, value)
    assert git(copying.repo, "diff", "--name-only") == ""
    assert (await copying.base()).uncommitted == 0


async def test_without_an_index_everything_is_deleted_and_untracked(copying: Lab) -> None:
    copying.write({"a": "a\n"})
    copying.commit()
    (copying.repo / ".git/index").unlink()

    assert set(await modes(copying)) == {"a"}


async def test_a_repository_that_git_cannot_read_is_refused_with_the_cure(copying: Lab) -> None:
    copying.write({"a": "a\n"})
    copying.commit()
    blob = git(copying.repo, "rev-parse", "HEAD:a").strip()
    with pytest.raises(UsageError, match="no commit that can be read"):
        await copying.base(blob)
    elsewhere = copying.repo.parent / "elsewhere"
    elsewhere.mkdir()
    git(copying.repo, "config", "core.worktree", str(elsewhere))
    with pytest.raises(UsageError, match="work tree elsewhere"):
        await copying.base()
    git(copying.repo, "config", "core.repositoryFormatVersion", "99")
    with pytest.raises(UsageError, match="not a repository git can read") as caught:
        await copying.base()
    assert "a newer git reads it" in caught.value.hint
    (copying.repo / ".git/config").write_text("[core\n")
    with pytest.raises(UsageError, match="not a repository git can read") as caught:
        await copying.base()
    assert "fsck" in caught.value.hint


async def test_a_broken_setting_of_the_user_is_named(copying: Lab) -> None:
    copying.write({"a": "a\n"})
    copying.commit()
    place = copying.repo.parent
    (place / ".gitconfig").write_text("[core\n")
    trees = GitTrees(place / "other", environ={"HOME": str(place)}, uid=1000, gid=1000)
    with pytest.raises(UsageError, match=r"configuration of .* cannot be read"):
        await trees.snapshot(copying.repo)


async def test_a_history_with_holes_is_refused_with_the_cure(copying: Lab) -> None:
    copying.write({"a": "1\n"})
    first = copying.commit()
    copying.write({"a": "2\n"})
    copying.commit()
    (copying.repo / ".git/objects" / first[:2] / first[2:]).unlink()

    with pytest.raises(UsageError, match="history of") as caught:
        await copying.trees.history(await copying.base())

    assert caught.value.hint
    assert list(copying.trees.home.glob("**/history/*.new-*")) == []


async def test_a_file_that_changes_while_it_is_read_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[int] = []
    base = Base(repository="/r", store="/s", commit=None, branch=None, tree="t")

    def take() -> Base:
        tries.append(1)
        if len(tries) < snapshot.ATTEMPTS:
            raise ChangedMeanwhile
        return base

    assert snapshot.patiently(take) is base
    tries.clear()
    monkeypatch.setattr(snapshot, "ATTEMPTS", 1)

    def never() -> Base:
        raise ChangedMeanwhile

    with pytest.raises(WorkFailed, match="shrank"):
        snapshot.patiently(never)


async def test_a_base_of_key_files_holds_them_alone_and_is_named_by_their_content(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pinned, "KEPT_LISTINGS", 1)
    lab.write({"d/requirements.txt": "six\n", "a.py": "\n"})
    (lab.repo / "package.json").symlink_to("a.py")
    lab.commit()
    first = await lab.base()
    lab.write({"a.py": "edited\n"})
    second = await lab.base()
    lab.write({"d/requirements.txt": "six==1\n"})
    third = await lab.base()

    await lab.trees.checkout(first)
    reduced = await lab.trees.key_base(first)
    root = Path((await lab.workspaces.create(reduced, workspace_id="w")).root)

    assert (await lab.trees.key_base(second)).tree == reduced.tree
    assert (await lab.trees.key_base(first, tree=third.tree)).tree != reduced.tree
    assert (await lab.trees.key_base(third)).tree != reduced.tree
    assert set(bytes_below(root)) == {"d/requirements.txt", "package.json"}
    borrowed = root / ".git/objects/info/alternates"  # an ordinary user's copy borrows its packs
    lenders = (
        [Path(line) for line in borrowed.read_text().splitlines()] if borrowed.exists() else []
    )
    stores = (root / ".git/objects", *lenders)
    packs = [path for store in stores for path in store.rglob("*") if path.is_file()]
    assert [path for path in packs if path != borrowed] == []
    assert lab.trees.bases._near_file(lab.trees.git_of(first)).read_text() == first.tree


async def test_key_files_are_found_by_the_names_that_links_give(copying: Lab) -> None:
    copying.write({"deps/all.list": "six\n", "deps/more/dev.txt": "x\n", "deps/other": "o\n"})
    (copying.repo / "requirements.txt").symlink_to("deps/all.list")
    (copying.repo / "requirements").symlink_to("deps/more")
    copying.commit()
    base = await copying.base()
    changeset = await copying.changed(base, {"deps/all.list": "six==1\n", "deps/other": "p\n"})

    links = await copying.trees.links(base, changeset)
    assert touched_key_files(changeset.changes, links) == ["deps/all.list"]


async def test_what_a_killed_engine_left_of_a_store_is_deleted(copying: Lab) -> None:
    copying.write({"a": "a\n"})
    copying.commit()
    base = await copying.base()
    store = Path(base.store)
    left = store.with_name(f"{store.name}.new-1")
    shutil.rmtree(store.parent)
    left.mkdir(parents=True)

    again = await copying.base()

    assert (again.tree, again.store) == (base.tree, base.store)
    assert left not in set(copying.trees.home.rglob("*.new-*"))


async def test_a_checkout_deep_in_a_closed_folder_is_named_with_the_cure(ordinary: Path) -> None:
    lab = lab_at(ordinary, "copy")
    lab.write({"d/e/f": "f\n"})
    lab.commit()
    (lab.repo / "d").chmod(0)
    with pytest.raises(UsageError, match="cannot be read") as caught:
        await lab.trees.snapshot(lab.repo / "d/e")
    (lab.repo / "d").chmod(0o755)
    assert "right to read" in caught.value.hint


async def test_a_staged_submodule_stays_the_commit_that_was_staged(copying: Lab) -> None:
    copying.write({"a": "a\n"})
    commit = copying.commit()
    git(copying.repo, "update-index", "--add", "--cacheinfo", f"160000,{commit},sub")

    base = await copying.base()

    assert base.submodules == {"sub": commit}


async def test_a_file_whose_reading_fails_is_named(
    copying: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying.write({"a": "a\n"})
    copying.commit()
    copying.write({"a": "other\n"})

    def fails(_reader: Reader, _path: str) -> os.stat_result:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Reader, "status", fails)
    with pytest.raises(UsageError, match="a cannot be read") as caught:
        await copying.base()
    assert caught.value.details == {"path": "a"}


def _pipe(place: Path) -> None:
    os.mkfifo(place)


def _endless(place: Path) -> None:
    place.symlink_to("/dev/zero")


def _huge(place: Path) -> None:
    place.touch()
    os.truncate(place, MAX_INDEX_BYTES + 1)


@pytest.mark.parametrize("name", ["index", "sharedindex.0123"])
@pytest.mark.parametrize("make", [_pipe, _endless, _huge])
async def test_an_index_that_cannot_be_one_is_named_and_not_waited_for(
    copying: Lab, name: str, make: Callable[[Path], None]
) -> None:
    copying.write({"a.txt": "a\n"})
    copying.commit()
    place = copying.repo / ".git" / name
    place.unlink(missing_ok=True)
    make(place)

    with pytest.raises(UsageError, match=rf"{name} is (no file|larger than any index)"):
        await copying.base()


async def test_an_encoding_that_does_not_fit_closes_no_file(copying: Lab) -> None:
    """Git reads a file that is as young as the index, and says an error of its byte order mark."""
    copying.write({"f.txt": b"\xff\xfea\0"})
    os.utime(copying.repo / "f.txt", (2**31, 2**31))
    copying.commit()
    copying.write({".gitattributes": "f.txt text working-tree-encoding=UTF-16LE\n"})

    assert (await copying.base()).uncommitted == 1
