"""What the user's own git would run or obey of the checkout needs a person's word at hand-over."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from handovers import order
from laboratory import Lab, git
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import StateRefusal

pytestmark = pytest.mark.anyio

HOOK = "tools/hooks/pre-commit"


async def edited(lab: Lab, path: str) -> tuple[Base, ChangeSet]:
    """Return a base that has the usual files, and a change of one of them."""
    lab.write({HOOK: "true\n", "tools/hooks/lib/x": "x\n", "a.txt": "a\n", "conf/git": "\n"})
    lab.commit()
    base = await lab.base()
    return base, await lab.changed(base, {path: "changed\n"})


def _relative(repo: Path) -> None:
    git(repo, "config", "core.hooksPath", "./tools/hooks/")


def _absolute(repo: Path) -> None:
    git(repo, "config", "--global", "core.hooksPath", str(repo / "tools/hooks"))


def _by_a_link_from_outside(repo: Path) -> None:
    (repo.parent / "linked").symlink_to(repo)
    git(repo, "config", "--global", "core.hooksPath", str(repo.parent / "linked/tools/hooks"))


def _below_the_home(repo: Path) -> None:
    (Path(os.environ["HOME"]) / "shop").symlink_to(repo)
    git(repo, "config", "--global", "core.hooksPath", "~/shop/tools/hooks")


def _by_a_link_inside(repo: Path) -> None:
    (repo / "hooks").symlink_to("tools")
    git(repo, "config", "core.hooksPath", "hooks/hooks")


def _of_this_work_tree(repo: Path) -> None:
    git(repo, "config", "extensions.worktreeConfig", "true")
    git(repo, "config", "--worktree", "core.hooksPath", "TOOLS/Hooks")


def _by_an_included_file(repo: Path) -> None:
    (repo / ".git/more").write_text("[core]\n\thooksPath = tools/hooks\n")
    git(repo, "config", "include.path", "more")


def _of_all_users(repo: Path) -> None:
    place = repo.parent / "system"
    place.write_text("[core]\n\thooksPath = tools/hooks\n")
    os.environ.update(GIT_CONFIG_SYSTEM=str(place), GIT_CONFIG_NOSYSTEM="0")


LEVELS = [
    _relative,
    _absolute,
    _by_a_link_from_outside,
    _below_the_home,
    _by_a_link_inside,
    _of_this_work_tree,
    _by_an_included_file,
    _of_all_users,
]


@pytest.mark.parametrize("configure", LEVELS)
async def test_hooks_of_the_user_in_the_checkout_need_a_word(
    copying: Lab, configure: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)  # both are brought back by this
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    base, changeset = await edited(copying, HOOK)
    configure(copying.repo)
    lab = replace(copying, trees=type(copying.trees)(copying.trees.home))

    with pytest.raises(StateRefusal, match=r"core\.hookspath") as refused:
        await lab.apply(base, changeset, order("worktree"))
    assert refused.value.details["paths"] == [HOOK]
    with pytest.raises(StateRefusal, match=r"core\.hookspath"):
        await lab.apply(base, changeset, order("patch", name=str(lab.repo / "p.patch")))
    assert (lab.repo / HOOK).read_text() == "true\n"

    await lab.apply(base, changeset, order("worktree", allow=[HOOK]))
    assert (lab.repo / HOOK).read_text() == "changed\n"


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("core.hooksPath", "tools/hooks", "tools/hooks/lib/x"),
        ("core.hooksPath", ".", "pre-push"),
        ("include.path", "../conf/git", "conf/git"),
        ("includeIf.onbranch:other.path", "../conf/later", "conf/later"),
        ("core.attributesFile", "conf/git", "conf/git"),
        ("core.fsmonitor", "tools/hooks/lib/x", "tools/hooks/lib/x"),
        ("filter.nb.clean", "python3 -I tools/hooks/lib/x %f", "tools/hooks/lib/x"),
        ("diff.bin.textconv", "python3 a.txt", "a.txt"),
        ("core.sshCommand", "ssh -F 'conf/git'", "conf/git"),
        ("credential.helper", "!./tools/hooks/lib/x --store=conf/git", "conf/git"),
    ],
)
async def test_all_that_the_users_git_reads_or_runs_needs_a_word(
    copying: Lab, key: str, value: str, path: str
) -> None:
    base, changeset = await edited(copying, path)
    git(copying.repo, "config", key, value)
    with pytest.raises(StateRefusal, match="your git setting") as refused:
        await copying.apply(base, changeset, order("branch"))
    assert refused.value.details["paths"] == [path]


async def test_other_settings_and_other_folders_ask_for_nothing(copying: Lab) -> None:
    base, changeset = await edited(copying, "a.txt")
    for key, value in {
        "core.hooksPath": ".",
        "core.pager": "a.txt",  # looked up in PATH
        "filter.nb.smudge": "cat 'a.txt",  # what a shell cannot read is read by its blanks
        "alias.x": "!./a.txt",
        "core.fsmonitor": "true",
    }.items():
        git(copying.repo, "config", key, value)
    (copying.repo.parent / "repo2").mkdir()
    git(copying.repo, "config", "--global", "core.hooksPath", str(copying.repo.parent / "repo2"))
    await copying.apply(base, changeset, order("worktree"))
    assert (copying.repo / "a.txt").read_text() == "changed\n"


async def test_a_link_that_only_the_checkout_has_gives_a_protected_name(copying: Lab) -> None:
    base, changeset = await edited(copying, "tools/hooks/lib/x")
    (copying.repo / ".git/info/exclude").write_text(".vscode\n")
    (copying.repo / ".vscode").symlink_to("tools/hooks/lib")
    with pytest.raises(StateRefusal, match=r"by the link '\.vscode'") as refused:
        await copying.apply(base, changeset, order("worktree"))
    assert refused.value.details["paths"] == ["tools/hooks/lib/x"]


async def test_the_new_name_of_a_chosen_file_needs_a_word_too(copying: Lab) -> None:
    copying.write({"a.txt": "one\ntwo\nthree\n"})
    copying.commit()
    base = await copying.base()
    changeset = await copying.changed(base, {"a.txt": None, ".envrc": "one\ntwo\nthree\n"})
    chosen = replace(order("worktree"), paths=("a.txt",))
    with pytest.raises(StateRefusal, match=r"\.envrc"):
        await copying.apply(base, changeset, chosen)
    assert not (copying.repo / ".envrc").exists()
