"""What others do in the checkout between the steps of a hand-over is seen, and stays theirs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from handovers import begun, order
from laboratory import Lab, bytes_below, git
from patchyard.clients.placer import Placer
from patchyard.clients.reader import Reader
from patchyard.domain.errors import Conflict
from patchyard.workspaces.edits import present
from patchyard.workspaces.handover import GitHandOver

pytestmark = pytest.mark.anyio


def switched(repo: Path) -> None:
    git(repo, "switch", "-q", "-c", "other")


def committed(repo: Path) -> None:
    git(repo, "commit", "-q", "--allow-empty", "-m", "newer")


@pytest.mark.parametrize("act", [switched, committed])
async def test_a_merge_is_not_made_onto_another_branch_than_it_was_worked_out_for(
    copying: Lab, act: Callable[[Path], None]
) -> None:
    base, changeset = await begun(copying)
    handing = GitHandOver(copying.trees)
    intent = await handing.plan(base, changeset, order("merge"))
    act(copying.repo)
    before = bytes_below(copying.repo), git(copying.repo, "for-each-ref")

    with pytest.raises(Conflict, match="nothing was changed: the merge was worked out for main"):
        await handing.carry_out(base, changeset, order("merge"), intent)

    assert (bytes_below(copying.repo), git(copying.repo, "for-each-ref")) == before
    assert git(copying.repo, "status", "--porcelain") == ""


async def test_a_branch_switched_while_the_files_go_in_leaves_index_and_branches_alone(
    copying: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, changeset = await begun(copying)
    before = bytes_below(copying.repo), git(copying.repo, "rev-parse", "main")
    take = Placer.take

    def meanwhile(placer: Placer, place: Path, path: str) -> None:
        take(placer, place, path)
        if path == "new/deep.txt":
            git(copying.repo, "symbolic-ref", "HEAD", "refs/heads/other")
            git(copying.repo, "branch", "other", "main")

    monkeypatch.setattr(Placer, "take", meanwhile)
    with pytest.raises(Conflict, match="the checkout is on other"):
        await copying.apply(base, changeset, order("merge"))

    assert (bytes_below(copying.repo), git(copying.repo, "rev-parse", "main")) == before
    assert git(copying.repo, "status", "--porcelain") == ""


async def test_a_twin_that_another_put_in_place_is_not_taken_back(
    copying: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying.write({"a": "a\n", "z": "z\n"})
    copying.commit()
    base = await copying.base()
    changeset = await copying.changed(base, {"a": "A\n", "b": "B\n", "z": "Z\n"})
    take = Placer.take

    def meanwhile(placer: Placer, place: Path, path: str) -> None:
        take(placer, place, path)
        if path == "b":
            (copying.repo / "twin").write_text("B\n")
            (copying.repo / "twin").replace(copying.repo / "b")
            (copying.repo / "z").write_text("newer\n")

    monkeypatch.setattr(Placer, "take", meanwhile)
    with pytest.raises(Conflict, match="taken back, but for b: z changed meanwhile") as caught:
        await copying.apply(base, changeset, order("worktree"))

    assert caught.value.details["left"] == ["b"]
    assert bytes_below(copying.repo) == {
        "a": ("-", b"a\n"),
        "b": ("-", b"B\n"),
        "z": ("-", b"newer\n"),
    }


async def test_a_link_put_in_place_of_the_checkout_meanwhile_leads_no_file_elsewhere(
    copying: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base, changeset = await begun(copying)
    others, moved = tmp_path / "others", tmp_path / "moved"
    others.mkdir()
    elsewhere: list[Path] = []
    take = Placer.take

    def meanwhile(placer: Placer, place: Path, path: str) -> None:
        if not moved.exists():
            copying.repo.rename(moved)
            copying.repo.symlink_to(others)
        take(placer, place, path)
        elsewhere.extend(others.iterdir())

    monkeypatch.setattr(Placer, "take", meanwhile)
    await copying.apply(base, changeset, order("worktree"))

    assert not elsewhere
    assert (moved / "new/deep.txt").exists()


def test_a_file_that_ends_while_it_is_read_is_a_conflict() -> None:
    """As the kernel's own do, which are shorter than they say."""
    with Reader("/sys/kernel") as reader:
        names = [name for name, status in reader.names("") if status.st_size == 4096]
        path = "uevent_seqnum" if "uevent_seqnum" in names else names[0]
        with pytest.raises(Conflict, match=f"{path} was changed while it was read"):
            present(reader, path, frozenset(), like="0" * 40)
