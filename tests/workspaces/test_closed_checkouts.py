"""A checkout that cannot be written: refused by name before anything is begun."""

from pathlib import Path

import pytest

from handovers import begun, order
from laboratory import bytes_below, lab_at
from patchyard.clients.placer import Placer
from patchyard.domain.errors import StateRefusal
from patchyard.workspaces.handover import GitHandOver

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("to", "folder"),
    [
        ("worktree", ".git"),
        ("branch", ".git"),
        ("merge", ".git"),
        ("worktree", "."),
        ("merge", "."),
    ],
)
async def test_a_closed_folder_is_named_with_the_cure(ordinary: Path, to: str, folder: str) -> None:
    lab = lab_at(ordinary, "copy")
    base, changeset = await begun(lab)
    before = bytes_below(lab.repo)
    place = lab.repo / folder
    place.chmod(0o555)

    try:
        with pytest.raises(StateRefusal) as caught:
            await GitHandOver(lab.trees).plan(base, changeset, order(to))
    finally:
        place.chmod(0o755)

    assert caught.value.message.startswith(f"{place} cannot be written, nothing was changed")
    assert "patchyard-" not in caught.value.message
    assert f"UID {place.stat().st_uid}" in caught.value.hint
    assert bytes_below(lab.repo) == before


async def test_a_folder_that_is_closed_after_the_look_is_a_refusal_too(
    ordinary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = lab_at(ordinary, "copy")
    base, changeset = await begun(lab)
    before = bytes_below(lab.repo)
    handing = GitHandOver(lab.trees)
    intent = await handing.plan(base, changeset, order("worktree"))
    take = Placer.take

    def closing(self: Placer, place: Path, path: str) -> None:
        if path.startswith("new/"):
            raise PermissionError(13, "Permission denied", path)
        take(self, place, path)

    with monkeypatch.context() as patched:
        patched.setattr(Placer, "take", closing)
        with pytest.raises(StateRefusal, match="is closed to you"):
            await handing.carry_out(base, changeset, order("worktree"), intent)

    assert bytes_below(lab.repo) == before


async def test_taking_back_out_of_a_closed_checkout_is_refused_by_name(ordinary: Path) -> None:
    lab = lab_at(ordinary, "copy")
    base, changeset = await begun(lab)
    handing = GitHandOver(lab.trees)
    intent = await handing.plan(base, changeset, order("worktree"))
    receipt = await handing.carry_out(base, changeset, order("worktree"), intent)
    after = bytes_below(lab.repo)
    (lab.repo / ".git").chmod(0o555)

    try:
        with pytest.raises(StateRefusal, match=r"\.git cannot be written"):
            await handing.take_back(base, changeset, receipt)
    finally:
        (lab.repo / ".git").chmod(0o755)

    assert bytes_below(lab.repo) == after


async def test_a_patch_into_a_closed_folder_is_refused_before_anything_is_begun(
    ordinary: Path,
) -> None:
    lab = lab_at(ordinary, "copy")
    base, changeset = await begun(lab)
    place = ordinary / "closed"
    place.mkdir(0o555)

    with pytest.raises(StateRefusal, match="closed cannot be written"):
        await GitHandOver(lab.trees).plan(base, changeset, order("patch", name=f"{place}/p"))
