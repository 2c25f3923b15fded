"""Workspaces closed, lost and mounted again; places for mounts in them; which strategy there is."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from laboratory import AGENT, Lab, lab_at, started
from patchyard.clients.mounts import is_mounted
from patchyard.contracts.workspace import Renaming
from patchyard.domain.errors import UsageError, WorkFailed
from patchyard.toolbox.footing import STAGED
from patchyard.workspaces import materials, selection
from patchyard.workspaces.layers import LayerCache
from patchyard.workspaces.selection import can_overlay, plan_folder, select_workspaces

pytestmark = pytest.mark.anyio


async def test_what_is_written_is_there_after_closing_and_opening(lab: Lab) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)
    (root / "a.txt").write_text("mine\n")

    await lab.workspaces.close(ref)
    await lab.workspaces.close(ref)

    if ref.strategy == "overlay":
        assert not is_mounted(root)
    root = await lab.workspaces.open(base, ref)
    assert (root / "a.txt").read_text() == "mine\n"
    changed = await lab.workspaces.capture(base, ref)
    assert [change.path for change in changed.changes] == ["a.txt"]


async def test_what_a_killed_engine_was_bringing_home_is_nobodys_change(lab: Lab) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)
    for name in (f"{STAGED.decode()}0123456789abcdef", f"{STAGED.decode()}of-an-agent"):
        (root / name).touch()
    root.chmod(0o555)
    await lab.workspaces.close(ref)

    root = await lab.workspaces.open(base, ref)
    assert root.stat().st_mode & 0o777 == 0o555
    changed = await lab.workspaces.capture(base, ref)
    assert [change.path for change in changed.changes] == [f"{STAGED.decode()}of-an-agent"]


async def test_whatever_the_umask_the_agent_can_pass_the_folders_made_for_it(
    tmp_path: Path,
) -> None:
    before = os.umask(0o077)
    try:
        materials.make_place(tmp_path / "w/tasks/one", tmp_path / "home")
    finally:
        os.umask(before)
    made = (tmp_path / "w", tmp_path / "w/tasks", tmp_path / "w/tasks/one")
    assert [oct(folder.stat().st_mode & 0o777) for folder in made] == ["0o711"] * 3


async def test_a_tree_keeps_all_that_it_is_under_another_name(lab: Lab) -> None:
    base = await started(lab)
    _, in_the_way = await lab.workspace(base)
    (in_the_way / "old.txt").write_text("of another\n")
    waiting = await lab.workspaces.create(base, workspace_id="waiting")
    assert isinstance(lab.workspaces, Renaming)
    before = await lab.workspaces.open(base, waiting)
    (before / "a.txt").write_text("before\n")

    ref = await lab.workspaces.rename(waiting, in_the_way.parent.name)

    assert (ref.root, before.parent.exists()) == (str(in_the_way), False)
    root = in_the_way
    (root / "b.txt").write_text("after\n")
    await lab.workspaces.close(ref)
    assert await lab.workspaces.open(base, ref) == root
    changed = await lab.workspaces.capture(base, ref)
    assert [change.path for change in changed.changes] == ["a.txt", "b.txt"]
    await lab.workspaces.remove(ref)
    assert not root.parent.exists()


async def test_a_layer_is_what_was_written_last(lab: Lab) -> None:
    base = await started(lab)
    ref, root = await lab.workspace(base)
    (root / "new").write_text("1\n")
    (root / "folder").mkdir()
    (root / "ln").symlink_to("new")
    await lab.workspaces.layer(ref)
    (root / "new").write_text("2\n")

    layer = await lab.workspaces.layer(ref)

    assert layer is not None
    assert (layer / "new").read_text() == "2\n"
    assert (layer / "folder").is_dir()
    assert (layer / "ln").readlink() == Path("new")
    assert not (layer / "a.txt").exists()
    (root / "a.txt").write_text("of setup\n")
    layer = await lab.workspaces.layer(ref)
    assert layer is not None
    assert (layer / "a.txt").read_text() == "of setup\n"


async def test_places_for_mounts_are_made_and_belong_to_the_agent(lab: Lab) -> None:
    base = await started(lab)
    folders = ("node_modules", "d/deep/er", "d")

    ref = await lab.workspaces.create(base, workspace_id="w", folders=folders)
    root = await lab.workspaces.open(base, ref)

    for folder in folders:
        assert (root / folder).is_dir()
    owner = AGENT if os.geteuid() == 0 else os.geteuid()
    assert (root / "d/deep/er").stat().st_uid == owner
    assert (root / "d/b.txt").read_text() == "b\n"


@pytest.mark.parametrize("folder", ["a.txt", "out/inside", "a.txt/below"])
async def test_no_place_is_made_through_a_link_or_over_a_file(lab: Lab, folder: str) -> None:
    lab.write({"a.txt": "a\n"})
    outside = lab.repo.parent / "outside"
    outside.mkdir()
    (lab.repo / "out").symlink_to(outside)
    lab.commit()
    base = await lab.base()

    with pytest.raises(UsageError, match="cannot be shown") as caught:
        await lab.workspaces.create(base, workspace_id="w", folders=("fine", folder))

    assert "include" in caught.value.hint
    assert list(outside.iterdir()) == []


@pytest.mark.service("root")
async def test_auto_takes_what_works_and_opens_what_there_is_as_it_is(
    copying: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copying.repo.parent / "plans/deep/er"
    base = await started(copying)
    auto = select_workspaces(copying.trees, folder)
    for works, kind in ((True, "overlay"), (False, "copy")):
        monkeypatch.setattr(selection, "can_overlay", lambda _folder, answer=works: answer)
        ref = await auto.create(base, workspace_id=kind)
        assert ref.strategy == kind
        monkeypatch.setattr(selection, "can_overlay", lambda _folder, answer=works: not answer)
        await auto.close(ref)
        assert (await auto.open(base, ref) / "a.txt").exists()
        await auto.discard(kind)
        assert not Path(ref.root).parent.exists()
    with pytest.raises(UsageError, match="clone"):
        await auto.open(base, replace(ref, strategy="clone"))


@pytest.mark.service("root")
def test_where_no_overlay_mounts_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_arguments: object, **_options: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(selection, "mount_overlay", refuses)
    assert can_overlay(tmp_path) is False
    assert list(tmp_path.iterdir()) == []


async def test_an_ordinary_users_plans_lie_in_the_home_and_are_copies(ordinary: Path) -> None:
    assert plan_folder(ordinary) == ordinary / "plans"
    assert can_overlay(ordinary) is False
    lab = lab_at(ordinary, "copy")
    base = await started(lab)
    made = await select_workspaces(lab.trees, ordinary / "plans").create(base, workspace_id="one")
    assert made.strategy == "copy"


async def test_a_file_that_cannot_be_read_is_a_finding(ordinary: Path) -> None:
    lab = lab_at(ordinary, "copy")
    base = await started(lab)
    ref, root = await lab.workspace(base)
    (root / "a.txt").write_text("changed\n")
    (root / "a.txt").chmod(0)

    changed = await lab.workspaces.capture(base, ref)

    assert [(each.kind.value, each.path) for each in changed.findings] == [("unreadable", "a.txt")]
    assert "a.txt" not in {change.path for change in changed.changes}
    await lab.workspaces.remove(ref)


async def test_a_tree_that_its_owner_closed_is_opened_and_said_to_be_unreadable(
    ordinary: Path,
) -> None:
    lab = lab_at(ordinary, "copy")
    base = await started(lab)
    ref, root = await lab.workspace(base)
    root.chmod(0)
    await lab.workspaces.open(base, ref)
    with pytest.raises(WorkFailed, match="Permission denied"):
        await lab.workspaces.capture(base, ref)
    await lab.workspaces.remove(ref)


async def test_a_layers_links_and_modes_are_nobodys_change(lab: Lab) -> None:
    base = await started(lab)
    setup, made = await lab.workspace(base, "setup")
    (made / "lib").mkdir()
    (made / "lib/same").symlink_to("target")
    (made / "lib/other").symlink_to("target")
    (made / "lib/tool").write_text("#!/bin/sh\n")
    (made / "lib/kind").write_text("x\n")
    await lab.workspaces.close(setup)
    written = await lab.workspaces.layer(setup)
    assert written is not None
    layer = LayerCache(lab.repo.parent / "layers", "here").keep("k", written)
    ref, root = await lab.workspace(base, layers=(layer,))
    assert (root / "lib/same").readlink() == Path("target")
    for name in ("same", "other"):
        (root / "lib" / name).unlink()
    (root / "lib/same").symlink_to("target")
    (root / "lib/other").symlink_to("elsewhere")
    (root / "lib/tool").chmod(0o755)
    (root / "lib/kind").unlink()
    (root / "lib/kind").symlink_to("x")

    changed = await lab.workspaces.capture(base, ref)

    found = {change.path: change.mode for change in changed.changes}
    assert found == {"lib/other": "120000", "lib/tool": "100755", "lib/kind": "120000"}


KILLED = """
import os, sys
from pathlib import Path
from patchyard.workspaces import selection

real = selection.mount_overlay

def mounted(target, **folders):
    real(target, **folders)
    os.write(1, b"mounted" if os.path.ismount(target) else b"not there")
    os.kill(os.getpid(), 9)

selection.mount_overlay = mounted
selection.can_overlay(Path(sys.argv[1]))
"""


@pytest.mark.service("overlay")
@pytest.mark.service("root")
def test_who_is_killed_while_an_overlay_is_tried_leaves_nothing_mounted(tmp_path: Path) -> None:
    words = [sys.executable, "-c", KILLED, str(tmp_path)]
    killed = subprocess.run(words, check=False, capture_output=True)
    assert (killed.returncode, killed.stdout) == (-9, b"mounted"), killed.stderr
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    assert can_overlay(tmp_path)
