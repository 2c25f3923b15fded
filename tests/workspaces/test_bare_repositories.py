"""A folder that git takes for a repository, without a `.git` in it, needs a person's word."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from handovers import order
from laboratory import Lab, git
from patchyard.domain.changeset import FindingKind
from patchyard.domain.errors import StateRefusal

pytestmark = pytest.mark.anyio

ARMED = "[core]\n\trepositoryFormatVersion = 0\n\tfsmonitor = touch ../../ran; false\n"
HEAD = "ref: refs/heads/main\n"
WHOLE: Mapping[str, str] = {
    "n/HEAD": HEAD,
    "n/objects/x": "",
    "n/refs/x": "",
    "n/config": f"{ARMED}\tworktree = .\n",
}
DIVIDED: Mapping[str, str] = {
    "n/HEAD": HEAD,
    "n/commondir": "../m\n",
    "m/objects/x": "",
    "m/refs/x": "",
    "m/config": ARMED,
}


def _runs(top: Path) -> bool:
    """Whether the user's own git, asked for a status in the folder, runs what the agent wrote."""
    git(top / "n", "status", "--short")
    return (top.parent / "ran").exists()


async def _findings(
    lab: Lab, before: Mapping[str, str], after: Mapping[str, str | None]
) -> set[str]:
    """Return the paths found in what is written over the files of `before`."""
    lab.write({"a.txt": "a\n", **before})
    lab.commit()
    changeset = await lab.changed(await lab.base(), after)
    return {each.path for each in changeset.findings if each.kind is FindingKind.NESTED_GIT}


async def test_git_obeys_a_repository_without_a_folder_named_git(copying: Lab) -> None:
    lab = copying
    lab.write({"a.txt": "a\n"})
    lab.commit()
    base = await lab.base()
    changeset = await lab.changed(base, WHOLE)

    await lab.apply(base, changeset, order("worktree", allow=["n"]))

    assert _runs(lab.repo)


@pytest.mark.parametrize("to", ["worktree", "patch"])
async def test_a_bare_repository_is_handed_over_by_a_word_alone(copying: Lab, to: str) -> None:
    lab = copying
    lab.write({"a.txt": "a\n"})
    lab.commit()
    base = await lab.base()
    changeset = await lab.changed(base, WHOLE)

    with pytest.raises(StateRefusal, match="git takes 'n' for a repository") as refused:
        await lab.apply(base, changeset, order(to, name=str(lab.repo.parent / "x.patch")))

    assert refused.value.details["paths"] == sorted(WHOLE)
    assert not (lab.repo / "n").exists()


async def test_a_repository_with_its_parts_elsewhere_is_found(copying: Lab) -> None:
    assert await _findings(copying, {}, DIVIDED) == {"n/HEAD", "n/commondir"}


async def test_names_count_without_case_and_in_deep_folders(copying: Lab) -> None:
    after = {"d/N/head": HEAD, "d/n/Objects/x": "", "d/n/REFS": "", "d/n/hooks/pre-commit": "x\n"}

    assert await _findings(copying, {}, after) == set(after)


async def test_a_repository_of_the_base_is_changed_by_a_word_alone(copying: Lab) -> None:
    found = await _findings(copying, WHOLE, {"n/config": f"{ARMED}# more\n", "a.txt": "b\n"})

    assert found == {"n/config"}


async def test_a_missing_part_completes_what_the_base_has(copying: Lab) -> None:
    before = {path: said for path, said in WHOLE.items() if path != "n/HEAD"}

    assert await _findings(copying, before, {"n/HEAD": HEAD}) == {"n/HEAD"}


async def test_folders_that_lack_a_part_are_free(copying: Lab) -> None:
    after = {"n/HEAD": HEAD, "n/objects/x": "", "m/refs/x": "", "m/objects/x": "", "HEAD": HEAD}

    assert await _findings(copying, {}, after) == set()


async def test_a_repository_of_the_base_can_be_deleted(copying: Lab) -> None:
    assert await _findings(copying, WHOLE, dict.fromkeys(WHOLE)) == set()


async def test_parts_that_only_the_checkout_has_count_at_hand_over(copying: Lab) -> None:
    lab = copying
    lab.write({"a.txt": "a\n"})
    lab.commit()
    base = await lab.base()
    changeset = await lab.changed(base, {"n/config": ARMED, "n/HEAD": HEAD})
    assert not changeset.findings
    for name in ("objects", "refs"):
        (lab.repo / "n" / name).mkdir(parents=True)  # empty folders, which no tree holds

    with pytest.raises(StateRefusal, match="git takes 'n' for a repository") as refused:
        await lab.apply(base, changeset, order("worktree"))

    assert refused.value.details["paths"] == ["n/HEAD", "n/config"]
