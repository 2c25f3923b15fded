import os
import shutil
import time
from pathlib import Path

import pytest

from laboratory import Lab, bytes_below, git, started
from patchyard.clients.mounts import is_mounted, unmount
from patchyard.contracts.trees import whole
from patchyard.contracts.workspace import CallWindow, WorkspaceRef
from patchyard.domain.changeset import Base, FindingKind
from patchyard.workspaces import sight
from patchyard.workspaces.layers import LayerCache

pytestmark = pytest.mark.anyio

COARSE = 5  # CLOCK_REALTIME_COARSE, which the time module does not name; calls begin on it


@pytest.mark.parametrize("is_made_anew", [False, True])
async def test_what_lies_in_a_submodules_folder_is_a_finding_and_the_rest_is_kept(
    lab: Lab, is_made_anew: bool
) -> None:
    lab.write({"a.txt": "one\n"})
    commit = lab.commit()
    for name in ("lib/sub", "other"):
        (lab.repo / name).mkdir(parents=True)
        git(lab.repo, "update-index", "--add", "--cacheinfo", f"160000,{commit},{name}")
    git(lab.repo, "commit", "-qm", "submodules")
    base = await lab.base()
    assert base.submodules == {"lib/sub": commit, "other": commit}
    ref, root = await lab.workspace(base)
    if is_made_anew and (root / "lib/sub").is_dir():
        (root / "lib/sub").rmdir()
    (root / "lib/sub/deep").mkdir(parents=True)
    (root / "lib/sub/deep/new.txt").write_text("by mistake\n")
    (root / "lib/subway.txt").write_text("beside\n")
    (root / "a.txt").write_text("two\n")

    changeset = await lab.workspaces.capture(base, ref)

    assert [change.path for change in changeset.changes] == ["a.txt", "lib/subway.txt"]
    (found,) = changeset.findings
    assert (found.kind, found.path) == (FindingKind.NESTED_GIT, "lib/sub/deep/new.txt")
    assert found.message == "lies in the folder of the submodule lib/sub; left out"
    assert found.blocks_apply


async def test_a_submodule_whose_place_a_file_takes_is_an_ordinary_change(lab: Lab) -> None:
    lab.write({"a.txt": "one\n"})
    commit = lab.commit()
    git(lab.repo, "update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
    git(lab.repo, "commit", "-qm", "submodule")
    (lab.repo / "sub").mkdir()
    base = await lab.base()
    ref, root = await lab.workspace(base)
    if (root / "sub").is_dir():
        (root / "sub").rmdir()
    (root / "sub").write_text("a file\n")
    changeset = await lab.workspaces.capture(base, ref)
    assert [(change.path, change.mode) for change in changeset.changes] == [("sub", "100644")]


async def test_every_kind_of_change_is_listed_with_its_lines(lab: Lab) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)
    (root / "a.txt").write_text("one\nTWO\nthree\nfour\n")
    (root / "d/b.txt").unlink()
    (root / "e/f/g.txt").rename(root / "moved.txt")
    (root / "run.sh").chmod(0o755)
    (root / "d/c.txt").unlink()
    (root / "d/c.txt").symlink_to("../a.txt")
    (root / "blob").write_bytes(b"\0\1\2")
    (root / "build/kept.txt").write_text("changed\n")
    (root / "build/new.txt").write_text("ignored\n")
    (root / "x.pyc").write_bytes(b"ignored")

    changeset = await lab.workspaces.capture(base, ref)

    found = {change.path: change for change in changeset.changes}
    assert {path: str(change.status) for path, change in found.items()} == {
        "a.txt": "modified",
        "blob": "added",
        "build/kept.txt": "modified",
        "d/b.txt": "deleted",
        "d/c.txt": "type",
        "moved.txt": "renamed",
        "run.sh": "mode",
    }
    assert (found["a.txt"].added, found["a.txt"].removed) == (2, 1)
    assert found["moved.txt"].old_path == "e/f/g.txt"
    assert found["blob"].is_binary
    assert not changeset.findings
    assert not changeset.is_empty


async def test_the_patch_makes_the_base_into_the_workspace(lab: Lab, tmp_path: Path) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)
    shutil.rmtree(root / "d")
    (root / "d").write_bytes(b"a file\r\n")
    (root / "a.txt").unlink()
    (root / "a.txt").mkdir()
    (root / "a.txt" / "inner").write_text("no newline at the end")
    (root / "run.sh").rename(root / "run2.sh")
    shutil.rmtree(root / "build")
    changeset = await lab.workspaces.capture(base, ref)

    patch = await whole(lab.trees.diff(base, changeset))
    fresh = lab.fresh(base, tmp_path / "fresh")
    git(fresh, "init", "-q")
    git(fresh, "apply", "--binary", "-", stdin=patch)

    assert bytes_below(fresh) == bytes_below(root)


async def test_nothing_done_is_an_empty_change_set_whatever_was_touched(lab: Lab) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)
    os.utime(root / "a.txt")
    (root / "d/b.txt").write_text("b\n")
    (root / "e/f/g.txt").unlink()
    (root / "e/f/g.txt").write_text("g\n")

    changeset = await lab.workspaces.capture(base, ref)

    assert changeset.is_empty
    assert changeset.changes == ()


async def test_the_same_work_has_the_same_identity(copying: Lab) -> None:
    base = await started(copying)
    first = await copying.changed(base, {"a.txt": "x\n", "new": "n\n"})
    second = await copying.changed(base, {"new": "n\n", "a.txt": "x\n"})

    assert first.id == second.id
    assert first.id != (await copying.changed(base, {"a.txt": "x\n"})).id


async def test_a_result_can_be_laid_out_again_and_is_the_same(lab: Lab) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)
    shutil.rmtree(root / "d")
    (root / "e/f/g.txt").write_text("G\n")
    (root / "n").mkdir()
    (root / "n/link").symlink_to("../a.txt")
    (root / "run.sh").chmod(0o755)
    changeset = await lab.workspaces.capture(base, ref)

    again, place = await lab.workspace(base, "again", tree=changeset.tree)

    assert bytes_below(place) == bytes_below(root)
    assert (await lab.workspaces.capture(base, again)).tree == changeset.tree


async def kept(lab: Lab, base: Base, ref: WorkspaceRef, folder: Path) -> Path:
    """Keep what was written there as a layer, as setup does."""
    await lab.workspaces.close(ref)
    written = await lab.workspaces.layer(ref)
    assert written is not None
    without = await lab.trees.hidden_by(base, written)
    layer = LayerCache(folder / "layers", "here").keep("k", written, without=without)
    await lab.workspaces.remove(ref)
    return layer


async def test_setup_files_count_only_where_the_actor_changed_them(
    lab: Lab, tmp_path: Path
) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base, "setup")
    (root / "egg-info").mkdir()
    (root / "egg-info/top").write_text("t\n")
    (root / "egg-info/other").write_text("o\n")
    (root / "a.txt").write_text("by setup\n")
    (root / "d/b.txt").unlink()
    (root / "x.pyc").write_bytes(b"cache")
    layer = await kept(lab, base, ref, tmp_path)

    ref, root = await lab.workspace(base, "work", layers=(layer,))
    assert (root / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert (root / "d/b.txt").exists()
    assert (root / "x.pyc").exists()
    assert (await lab.workspaces.capture(base, ref)).is_empty
    os.utime(root / "egg-info/top")
    (root / "egg-info/other").write_text("by the actor\n")
    changeset = await lab.workspaces.capture(base, ref)

    assert [change.path for change in changeset.changes] == ["egg-info/other"]


async def test_a_layer_whose_links_lead_out_is_not_written_through(
    lab: Lab, tmp_path: Path
) -> None:
    base = await started(lab)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("outside\n")
    result = await lab.changed(base, {"made/b.txt": "of the work\n"})
    ref, root = await lab.workspace(base, "setup")
    (root / "made").symlink_to(outside)
    layer = await kept(lab, base, ref, tmp_path)

    with pytest.raises(Exception, match="setup layer"):
        await lab.workspace(base, "work", layers=(layer,), tree=result.tree)

    assert (outside / "b.txt").read_text() == "outside\n"


@pytest.mark.service("root")
async def test_devices_and_whiteouts_made_by_hand_stay_outside(lab: Lab) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)
    own = Path(ref.details.get("upper", root))
    os.mknod(own / "null", 0o20666, os.makedev(1, 3))

    changeset = await lab.workspaces.capture(base, ref)

    assert [each.kind for each in changeset.findings] == [FindingKind.SPECIAL_FILE]
    assert changeset.is_empty


async def test_hooks_and_filters_in_the_agents_git_are_never_run(lab: Lab, tmp_path: Path) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)
    run = tmp_path / "run"
    run.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    run.chmod(0o755)
    config = f'[core]\n\tfsmonitor = {run}\n[filter "e"]\n\tclean = {run}\n\trequired = true\n'
    with (root / ".git/config").open("a") as file:
        file.write(config)
    (root / ".gitattributes").write_text("* filter=e\n")
    (root / "nested").mkdir()
    git(root / "nested", "init", "-q")
    (root / "nested/.git/config").write_text(config)
    (root / "nested/x").write_text("x\n")

    changeset = await lab.workspaces.capture(base, ref)
    await whole(lab.trees.diff(base, changeset))

    assert not (tmp_path / "ran").exists()
    assert "nested/x" in [change.path for change in changeset.changes]


async def test_an_ignored_folder_is_not_even_entered(lab: Lab) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)
    at = root / "e" / "build"
    at.mkdir()
    for _ in range(300):
        at /= "d"
        try:
            at.mkdir()
        except OSError:
            break
    os.mkfifo(root / "e/build/pipe")

    changeset = await lab.workspaces.capture(base, ref)

    assert changeset.is_empty
    assert changeset.findings == ()


async def test_folders_deeper_than_any_tool_can_use_are_a_finding(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sight, "MAX_DEPTH", 5)
    base = await started(lab)
    ref, root = await lab.workspace(base)
    at = root
    for _ in range(8):
        at /= "d"
        at.mkdir(exist_ok=True)
    (at / "f").write_text("x")

    changeset = await lab.workspaces.capture(base, ref)

    assert [each.kind for each in changeset.findings] == [FindingKind.TOO_LARGE]


async def test_changes_name_the_call_that_made_them(lab: Lab) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)

    def clock() -> float:
        return time.clock_gettime(COARSE)

    def tick() -> float:
        before = clock()
        while clock() <= before + 0.05:
            continue
        return clock()

    before = tick()
    (root / "a.txt").write_text("1\n")
    first = CallWindow(call_id="c1", started=before, ended=time.time())
    before = tick()
    (root / "d/b.txt").unlink()
    second = CallWindow(call_id="c2", started=before, ended=time.time())
    before = tick()
    for name in ("n1", "n2", "n3"):
        (root / name).write_text(f"{name}\n")
    at_once = [
        CallWindow(call_id=name, started=before, ended=time.time(), paths=(name,), is_open=False)
        for name in ("n1", "n2", "n3")
    ]
    looking = CallWindow(call_id="c3", started=before, ended=time.time(), is_open=False)

    windows = [first, second, *at_once, looking]
    changeset = await lab.workspaces.capture(base, ref, windows=windows)

    calls = {change.path: change.call_id for change in changeset.changes}
    assert calls == {"a.txt": "c1", "d/b.txt": "c2", "n1": "n1", "n2": "n2", "n3": "n3"}


async def test_the_agents_git_shows_history_and_nothing_of_the_users(lab: Lab) -> None:
    lab.write({"a": "1\n"})
    lab.commit("first")
    git(lab.repo, "checkout", "-q", "-b", "secret")
    lab.write({"hidden": "token\n"})
    hidden = lab.commit("hidden")
    git(lab.repo, "checkout", "-q", "main")
    git(lab.repo, "remote", "add", "origin", "https://user:token@example.org/x.git")
    git(lab.repo, "tag", "v1")
    lab.write({"a": "dirty\n", "new": "n\n"})
    base = await lab.base()
    ref, root = await lab.workspace(base)
    git(root, "config", "--global", "safe.directory", "*")

    assert git(root, "status", "--porcelain") == " M a\n?? new\n"
    assert git(root, "log", "--format=%s", "--all") == "first\n"
    assert git(root, "remote") == ""
    assert git(root, "tag") == ""
    assert hidden not in git(root, "cat-file", "--batch-check", "--batch-all-objects")
    assert not (root / ".git/hooks").exists()
    assert not (root / ".git/logs").exists()
    (root / "a").write_text("more\n")
    git(root, "commit", "-qam", "by the agent")
    git(root, "gc", "-q")
    git(root, "fsck")
    assert [change.path for change in (await lab.workspaces.capture(base, ref)).changes] == ["a"]


async def test_removing_is_idempotent_and_reopening_mounts_again(lab: Lab) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)
    (root / "a.txt").write_text("kept\n")
    if ref.strategy == "overlay":
        unmount(root)
        assert not is_mounted(root)

    assert (await lab.workspaces.open(base, ref) / "a.txt").read_text() == "kept\n"
    await lab.workspaces.remove(ref)
    await lab.workspaces.remove(ref)

    assert not root.parent.exists()


async def test_the_base_is_never_written_by_work_in_the_workspace(lab: Lab) -> None:
    base = await started(lab)
    checkout = await lab.trees.checkout(base)
    before = bytes_below(checkout)
    ref, root = await lab.workspace(base)
    for place in root.rglob("*.txt"):
        place.write_text("overwritten\n")
    (root / "run.sh").chmod(0o777)

    assert bytes_below(checkout) == before
    _, second = await lab.workspace(base, "second")
    assert bytes_below(second) == before
    await lab.workspaces.capture(base, ref)
