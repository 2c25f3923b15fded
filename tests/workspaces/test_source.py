"""What is read of the user's repository before anything else."""

import os
import subprocess
from pathlib import Path

import pytest

from laboratory import lab_at
from patchyard.clients.foreign_git import ITS_OWN, ForeignGit
from patchyard.domain.errors import UsageError
from patchyard.workspaces.pinned import GitTrees
from patchyard.workspaces.source import find


def test_a_path_with_a_line_break_is_refused_with_its_name_and_the_cure(tmp_path: Path) -> None:
    top = tmp_path / "a\nshop"
    top.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=top, check=True)
    nowhere = Path(os.devnull)
    git = ForeignGit(home=nowhere, config=nowhere, further={"safe.directory": "*"}, known=ITS_OWN)
    with pytest.raises(UsageError, match="line break") as refused:
        find(git, top, {})
    assert "a\\nshop" in refused.value.message
    assert "rename" in refused.value.hint


@pytest.mark.anyio
async def test_a_home_whose_path_holds_a_line_break_is_named(tmp_path: Path) -> None:
    lab = lab_at(tmp_path, "copy")
    lab.write({"a.txt": "a\n"})
    lab.commit()
    trees = GitTrees(tmp_path / "ho\nme")
    with pytest.raises(UsageError, match="the home's path holds a newline"):
        await trees.snapshot(lab.repo)
