"""What a repository chooses as its rules may be any file of the user's: no agent is shown it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from laboratory import Lab, git
from patchyard.workspaces.ignores import Ignores

pytestmark = pytest.mark.anyio

SECRET = "KEY-OF-THE-USER"


def _key() -> Path:
    place = Path(os.environ["HOME"]) / "key"
    place.write_text(f"{SECRET}\n*.ignored\n")
    return place


def _by_setting(repo: Path) -> None:
    _key()
    git(repo, "config", "core.excludesFile", "~/key")


def _by_setting_of_the_work_tree(repo: Path) -> None:
    git(repo, "config", "extensions.worktreeConfig", "true")
    git(repo, "config", "--worktree", "core.excludesFile", str(_key()))


def _by_an_included_file_of_others(repo: Path) -> None:
    (repo.parent / "others").write_text(f"[core]\n\texcludesFile = {_key()}\n")
    git(repo, "config", "include.path", str(repo.parent / "others"))


def _by_link(repo: Path) -> None:
    (repo / ".git/info/exclude").unlink(missing_ok=True)
    (repo / ".git/info/exclude").symlink_to(_key())


def _by_link_of_the_folder(repo: Path) -> None:
    _key().rename(repo.parent / "exclude")
    for each in (repo / ".git/info").iterdir():
        each.unlink()
    (repo / ".git/info").rmdir()
    (repo / ".git/info").symlink_to(repo.parent)


def _attributes_by_setting(repo: Path) -> None:
    _by_setting(repo)
    git(repo, "config", "core.attributesFile", "~/key")


WAYS = (
    _by_setting,
    _by_setting_of_the_work_tree,
    _by_an_included_file_of_others,
    _by_link,
    _by_link_of_the_folder,
    _attributes_by_setting,
)


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))


async def _shown(lab: Lab) -> str:
    """Return the rules that the agent's own git directory holds, of the checkout as it is."""
    base = await lab.base()
    _, root = await lab.workspace(base)
    info = root / ".git/info"
    return "".join((info / name).read_text() for name in ("exclude", "attributes"))


@pytest.mark.parametrize("choose", WAYS)
async def test_a_file_that_the_repository_chose_stays_unseen_and_counts(
    copying: Lab, choose: Callable[[Path], None]
) -> None:
    copying.write({"a.txt": "a\n"})
    copying.commit()
    choose(copying.repo)
    copying.write({"mine.ignored": "x\n"})

    base = await copying.base()

    assert base.uncommitted == 0  # what it ignores is no part of the base
    with Ignores(copying.trees.git_of(base), base, {}) as ignores:
        assert ignores.among(["made.ignored", "made.txt"], []) == {"made.ignored"}
    assert SECRET not in await _shown(copying)


async def test_rules_of_the_user_and_of_the_repository_itself_are_shown(copying: Lab) -> None:
    copying.write({"a.txt": "a\n"})
    copying.commit()
    git(copying.repo, "config", "--global", "core.excludesFile", str(_key()))
    (copying.repo / ".git/info/exclude").write_text("own\n")

    assert (await _shown(copying)).splitlines() == [SECRET, "*.ignored", "own"]
