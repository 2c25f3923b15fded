"""What the janitor is told of workspaces while plans make and remove them."""

from pathlib import Path

import pytest

from patchyard.domain.ids import ulid
from patchyard.workspaces import keeping
from patchyard.workspaces.keeping import WorkspaceKeeper

pytestmark = pytest.mark.anyio


async def test_a_workspace_that_its_plan_removes_meanwhile_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, there = (tmp_path / ulid(1, number) for number in (1, 2))
    for place in (gone, there):
        place.mkdir()
    listed = keeping._workspaces

    def listing(folder: Path) -> list[Path]:
        found = listed(folder)
        gone.rmdir()
        return found

    monkeypatch.setattr(keeping, "_workspaces", listing)
    found = await WorkspaceKeeper(tmp_path, None).found()
    assert [each.name for each in found] == [there.name]
