"""Hand-overs of odd trees, onto odd file systems, and under the hands of a user who goes on."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from handovers import FILES, begun, order
from laboratory import Lab, bytes_below, git
from patchyard.clients.placer import Placer
from patchyard.contracts.handover import Receipt
from patchyard.contracts.trees import whole
from patchyard.domain.codec import from_json, to_json
from patchyard.domain.errors import Conflict, StateRefusal, UsageError, WorkFailed
from patchyard.workspaces.handover import GitHandOver

pytestmark = pytest.mark.anyio


def edited(place: Path) -> None:
    place.write_text("newer\n")


def replaced_by_a_link(place: Path) -> None:
    place.unlink()
    place.symlink_to("b/c.txt")


@pytest.mark.parametrize("act", [edited, replaced_by_a_link, Path.unlink])
async def test_work_of_the_very_moment_is_not_overwritten_and_nothing_is_left_half_done(
    copying: Lab, monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], None]
) -> None:
    base, changeset = await begun(copying)
    remove = Placer.remove

    def slow(placer: Placer, path: str) -> None:
        if path == "gone.txt":
            act(copying.repo / "a.txt")
        remove(placer, path)

    monkeypatch.setattr(Placer, "remove", slow)
    expected = bytes_below(copying.repo)

    with pytest.raises(Conflict) as caught:
        await copying.apply(base, changeset, order("worktree"))

    assert caught.value.details["paths"] == ["a.txt"]
    now = bytes_below(copying.repo)
    assert now.pop("a.txt", None) != expected.pop("a.txt")
    assert now == expected
    assert not list((copying.repo / ".git").glob("patchyard-*"))


async def test_a_folder_swapped_for_a_link_in_between_is_not_written_through(
    copying: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copying.write({"d/a": "a\n", "d/b": "b\n"})
    copying.commit()
    base = await copying.base()
    changeset = await copying.changed(base, {"d/a": "A\n", "d/b": "B\n"})
    outside = tmp_path / "outside"
    shutil.copytree(copying.repo / "d", outside)
    take = Placer.take

    def slow(placer: Placer, place: Path, path: str) -> None:
        take(placer, place, path)
        if path == "d/a":
            (copying.repo / "d").rename(copying.repo / "aside")
            (copying.repo / "d").symlink_to(outside)

    monkeypatch.setattr(Placer, "take", slow)
    with pytest.raises((Conflict, WorkFailed)):
        await copying.apply(base, changeset, order("worktree"))

    assert (outside / "a").read_text() == "a\n"
    assert (outside / "b").read_text() == "b\n"


async def test_unapply_over_a_partial_edit_names_the_way_out(copying: Lab) -> None:
    base, changeset = await begun(copying)
    receipt = await copying.apply(base, changeset, order("worktree"))
    copying.write({"a.txt": "ONE\ntwo\nthree\nfour\nFIVE\n"})
    before = bytes_below(copying.repo)

    with pytest.raises(Conflict) as caught:
        await GitHandOver(copying.trees).take_back(base, changeset, receipt)

    assert bytes_below(copying.repo) == before
    assert "git apply -R" in caught.value.hint
    patch = await whole(copying.trees.diff(base, changeset))
    git(copying.repo, "apply", "-R", "-", stdin=patch)
    assert (copying.repo / "a.txt").read_text() == "one\ntwo\nthree\nfour\nFIVE\n"


async def test_where_modes_say_nothing_every_kind_of_change_goes_in_and_out(copying: Lab) -> None:
    copying.write({**FILES, "run.sh": "#!/bin/sh\n"})
    copying.commit()
    git(copying.repo, "config", "core.fileMode", "false")
    for name in FILES:  # what a file system without modes shows
        (copying.repo / name).chmod(0o777)
    base = await copying.base()
    assert base.uncommitted == 0
    ref, root = await copying.workspace(base)
    (root / "a.txt").write_text("ONE\ntwo\nthree\nfour\nfive\n")
    (root / "gone.txt").unlink()
    (root / "run.sh").chmod(0o755)
    (root / "new.sh").write_text("#!/bin/sh\n")
    (root / "new.sh").chmod(0o755)
    changeset = await copying.workspaces.capture(base, ref)
    before = {path: content for path, (_, content) in bytes_below(copying.repo).items()}

    receipt = await copying.apply(base, changeset, order("worktree"))
    (copying.repo / "new.sh").chmod(0o666)
    await copying.apply(base, changeset, order("worktree"))
    await GitHandOver(copying.trees).take_back(base, changeset, receipt)

    assert {path: content for path, (_, content) in bytes_below(copying.repo).items()} == before


async def test_names_that_one_file_system_takes_for_one_are_refused(copying: Lab) -> None:
    copying.write({"README": "r\n", "Other": "o\n"})
    copying.commit()
    base = await copying.base()
    changeset = await copying.changed(base, {"README": None, "readme": "r\n"})
    (copying.repo / ".GIT").symlink_to(".git")  # as if the file system folded case
    before = bytes_below(copying.repo)

    with pytest.raises(StateRefusal, match="README and readme are one file") as caught:
        await copying.apply(base, changeset, order("worktree"))

    assert "--to branch" in caught.value.hint
    assert bytes_below(copying.repo) == before
    changeset = await copying.changed(base, {"Other": "n\n"})
    await copying.apply(base, changeset, order("worktree"))


async def test_names_of_any_bytes_and_any_length_go_in_and_out(copying: Lab) -> None:
    longest = "x" * 255
    odd = os.fsdecode(b"caf\xe9/\xff\xfe")
    deep = "/".join(["d" * 200] * 12)
    copying.write({odd: "1\n", "empty": "", "bare": "no end"})
    git(copying.repo, "switch", "-q", "-c", f"topic/{'b' * 200}/{'c' * 200}")
    copying.commit()
    base = await copying.base()
    edits: dict[str, str | bytes | None] = {
        odd: "2\n",
        longest: "l\n",
        f"{deep}/{longest}": "d\n",
        "empty": "no longer",
        "bare": "",
    }
    changeset = await copying.changed(base, edits)
    before = bytes_below(copying.repo)
    handing = GitHandOver(copying.trees)

    receipt = await copying.apply(base, changeset, order("worktree"))
    for path, text in edits.items():
        assert (copying.repo / path).read_text() == text
    receipt = from_json(Receipt, json.loads(json.dumps(to_json(receipt))))
    await handing.take_back(base, changeset, receipt)

    assert bytes_below(copying.repo) == before
    merged = await copying.apply(base, changeset, order("merge"))
    assert git(copying.repo, "status", "--porcelain") == ""
    await handing.take_back(base, changeset, merged)
    assert git(copying.repo, "status", "--porcelain") == ""


async def test_branches_of_any_bytes_are_shown_as_they_are(copying: Lab) -> None:
    copying.write(FILES)
    copying.commit()
    for number, name in enumerate([b"caf\xe9", b"a/b", b"a%b"]):
        git(copying.repo, "switch", "-q", "-c", os.fsdecode(name))
        base = await copying.base()
        _, root = await copying.workspace(base, f"w{number}")
        assert (root / ".git/HEAD").read_bytes() == b"ref: refs/heads/" + name + b"\n"


async def test_more_paths_than_a_command_line_takes_are_merged(copying: Lab) -> None:
    copying.write({"a": "a\n"})
    copying.commit()
    base = await copying.base()
    deep = "/".join(["d" * 250] * 10)
    many: dict[str, str | bytes | None] = {f"{deep}/{number}": "" for number in range(850)}
    changeset = await copying.changed(base, many)

    receipt = await copying.apply(base, changeset, order("merge"))

    assert len(receipt.touched) == len(many)
    assert git(copying.repo, "status", "--porcelain") == ""


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
async def test_a_patch_goes_over_nothing_but_a_file(
    copying: Lab, make: Callable[[Path], None]
) -> None:
    base, changeset = await begun(copying)
    place = copying.repo.parent / "out.patch"
    make(place)

    with pytest.raises(UsageError, match="is no file"):
        await copying.apply(base, changeset, order("patch", name=str(place)))


async def test_a_million_lines_and_an_edit_at_each_end_are_merged(copying: Lab) -> None:
    lines = "".join(f"{number}\n" for number in range(1_000_000))
    copying.write({"big": f"first\n{lines}last\n"})
    copying.commit()
    base = await copying.base()
    changeset = await copying.changed(base, {"big": f"FIRST\n{lines}last\n"})
    copying.write({"big": f"first\n{lines}LAST\n"})

    await copying.apply(base, changeset, order("worktree"))

    assert changeset.changes[0].is_binary  # larger than the texts whose lines are told apart
    assert (copying.repo / "big").read_text() == f"FIRST\n{lines}LAST\n"


async def test_a_merge_that_git_refuses_is_told_in_gits_words(copying: Lab) -> None:
    base, changeset = await begun(copying)
    git(copying.repo, "checkout", "-q", "--orphan", "other")
    copying.commit("other")

    with pytest.raises(WorkFailed, match="unrelated histories"):
        await copying.apply(base, changeset, order("merge"))
