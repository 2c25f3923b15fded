import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from laboratory import Lab, bytes_below, lab_at
from patchyard.clients.scratch import make_scratch, sweep
from patchyard.domain.changeset import FindingKind
from patchyard.domain.errors import LimitReached, UnknownName, WorkFailed
from patchyard.workspaces import sight
from patchyard.workspaces.copy import CopyWorkspaces
from patchyard.workspaces.overlay import OverlayWorkspaces
from patchyard.workspaces.pinned import GitTrees
from patchyard.workspaces.selection import AutoWorkspaces, plan_folder, select_workspaces

pytestmark = pytest.mark.anyio


@pytest.mark.service("overlay")
@pytest.mark.service("root")
async def test_an_attribute_the_agent_can_set_does_not_fake_deletions(overlaid: Lab) -> None:
    overlaid.write({"d/a": "a\n", "d/b": "b\n"})
    overlaid.commit()
    base = await overlaid.base()
    ref, root = await overlaid.workspace(base)
    (root / "d/a").write_text("A\n")
    os.setxattr(root / "d", "user.overlay.opaque", b"y")

    changeset = await overlaid.workspaces.capture(base, ref)

    assert [change.path for change in changeset.changes] == ["d/a"]


async def test_a_folder_shut_by_its_owner_is_a_finding_and_can_be_removed(ordinary: Path) -> None:
    lab = lab_at(ordinary, "copy")
    lab.write({"d/f": "f\n"})
    lab.commit()
    base = await lab.base()
    ref, root = await lab.workspace(base)
    (root / "d").chmod(0)

    changeset = await lab.workspaces.capture(base, ref)
    await lab.workspaces.remove(ref)

    assert [each.kind for each in changeset.findings] == [FindingKind.UNREADABLE]
    assert changeset.is_empty
    assert not root.exists()


async def test_names_that_collide_by_case_or_carry_control_characters_stay_apart(lab: Lab) -> None:
    lab.write({"README": "1\n", "readme": "2\n", "Readme": "3\n", "bell\x07\x1b[31m": "4\n"})
    lab.commit()
    base = await lab.base()
    ref, root = await lab.workspace(base)
    (root / "readme").write_text("two\n")
    (root / "tab\tand\nline").write_text("5\n")

    changeset = await lab.workspaces.capture(base, ref)

    assert [change.path for change in changeset.changes] == ["readme", "tab\tand\nline"]


async def test_rules_are_the_bases_even_where_the_agent_rewrites_or_replaces_them(lab: Lab) -> None:
    lab.write({".gitignore": "*.log\n", "d/.gitignore": "!keep.log\n", "d/x": "x\n"})
    lab.commit()
    base = await lab.base()
    ref, root = await lab.workspace(base)
    (root / ".gitignore").write_text("*\n")
    (root / "d/.gitignore").unlink()
    (root / "d/.gitignore").mkdir()
    (root / "d/.gitignore/inner").write_text("i\n")
    (root / "d/keep.log").write_text("kept\n")
    (root / "d/drop.log").write_text("dropped\n")
    (root / "new").write_text("n\n")

    changeset = await lab.workspaces.capture(base, ref)

    assert {change.path for change in changeset.changes} == {
        *(".gitignore", "d/.gitignore", "d/.gitignore/inner", "d/keep.log", "new")
    }


async def test_the_number_of_files_is_bounded(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sight, "MAX_TOUCHED", 10)
    lab.write({"a": "a\n"})
    lab.commit()
    base = await lab.base()
    ref, root = await lab.workspace(base)
    for number in range(11):
        (root / f"f{number}").write_text("x")

    with pytest.raises(LimitReached):
        await lab.workspaces.capture(base, ref)


async def test_a_file_over_the_limit_is_left_out_and_named(copying: Lab) -> None:
    copying.write({"a": "a\n"})
    copying.commit()
    base = await copying.base()
    ref, root = await copying.workspace(base)
    with (root / "huge").open("wb") as file:
        file.truncate(5 * 1024**3)

    changeset = await copying.workspaces.capture(base, ref)

    assert [each.kind for each in changeset.findings] == [FindingKind.TOO_LARGE]
    assert changeset.is_empty


async def test_making_a_workspace_clears_what_a_killed_engine_left(lab: Lab) -> None:
    lab.write({"a": "a\n"})
    lab.commit()
    base = await lab.base()
    _, root = await lab.workspace(base, "same")
    (root / "a").write_text("half done\n")

    _, again = await lab.workspace(base, "same")

    assert bytes_below(again) == {"a": ("-", b"a\n")}


KILLED = """
import asyncio, sys
from pathlib import Path
from patchyard.workspaces import bases
from patchyard.workspaces.pinned import GitTrees
home, repo = map(Path, sys.argv[1:3])
def stop(*a):
    print("here", flush=True)
    sys.stdin.read()
bases._age = stop
trees = GitTrees(home, uid=int(sys.argv[3]), gid=int(sys.argv[3]))
async def main():
    base = await trees.snapshot(repo)
    await trees.checkout(base)
asyncio.run(main())
"""


async def test_a_kill_while_a_base_is_built_leaves_nothing_that_counts(copying: Lab) -> None:
    copying.write({"a": "a\n", "b": "b\n"})
    copying.commit()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, str(copying.trees.home), str(copying.repo),
        str(copying.trees.uid), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert await process.stdout.readline() == b"here\n"
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    base = await copying.base()
    assert not (copying.trees.bases.folder / base.tree).exists()

    checkout = await copying.trees.checkout(base)

    assert bytes_below(checkout) == {"a": ("-", b"a\n"), "b": ("-", b"b\n")}
    assert not list(copying.trees.bases.folder.glob(".*.new"))


async def test_two_engines_building_one_base_do_it_once(copying: Lab) -> None:
    copying.write({f"f{number}": "x\n" for number in range(50)})
    copying.commit()
    base = await copying.base()
    other = GitTrees(copying.trees.home, uid=copying.trees.uid, gid=copying.trees.gid)

    async with asyncio.TaskGroup() as group:
        first = group.create_task(copying.trees.checkout(base))
        second = group.create_task(other.checkout(base))

    assert first.result() == second.result()
    assert len(bytes_below(first.result())) == 50


def test_the_scratch_of_dead_processes_alone_is_swept(tmp_path: Path) -> None:
    mine = make_scratch(tmp_path, "view")
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                          capture_output=True, check=True)  # fmt: skip
    dead = mine.parent / f"{int(gone.stdout)}-view-x"
    dead.mkdir()

    sweep(tmp_path)
    sweep(tmp_path / "none")

    assert mine.exists()
    assert not dead.exists()


async def test_a_workspace_that_vanishes_under_the_reader_is_said_plainly(lab: Lab) -> None:
    lab.write({"a": "a\n"})
    lab.commit()
    base = await lab.base()
    ref, _ = await lab.workspace(base)
    await lab.workspaces.remove(ref)

    with pytest.raises(WorkFailed, match="changed while it was read"):
        await lab.workspaces.capture(base, ref)


def test_a_strategy_is_taken_at_its_word(tmp_path: Path) -> None:
    trees = GitTrees(tmp_path / "home")
    assert isinstance(select_workspaces(trees, tmp_path / "plans" / "deep"), AutoWorkspaces)
    assert isinstance(select_workspaces(trees, tmp_path, strategy="copy"), CopyWorkspaces)
    assert isinstance(select_workspaces(trees, tmp_path, strategy="overlay"), OverlayWorkspaces)
    with pytest.raises(UnknownName):
        select_workspaces(trees, tmp_path, strategy="magic")
    if os.geteuid() == 0:
        assert plan_folder(tmp_path).parent == Path("/var/lib/patchyard")
    else:
        assert plan_folder(tmp_path) == tmp_path / "plans"


async def test_files_of_holes_are_not_all_read_when_they_are_too_large_together(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write({"a.txt": "a\n"})
    lab.commit()
    base = await lab.base()
    ref, root = await lab.workspace(base)
    for name in ("1", "2", "a.txt"):
        (root / name).touch()
        os.truncate(root / name, 4_000)
    monkeypatch.setattr(sight, "MAX_BYTES", 9_000)

    changeset = await lab.workspaces.capture(base, ref)

    (left,) = changeset.findings
    assert (left.kind, left.blocks_apply) == (FindingKind.TOO_LARGE, True)
    assert len({change.path for change in changeset.changes} | {left.path}) == 3
