"""A part of a result, named as people name paths: `.`, `./a`, `a/`; looked at and applied."""

import pytest

from mainjob.driver import Desk, write

pytestmark = pytest.mark.service("bubblewrap")
GUARDED = ".github/workflows/ci.yml"


@pytest.fixture
def worked(desk: Desk) -> Desk:
    """A plan that adds two files, one in a folder."""
    assert desk.run(write("one.txt", "1\n"), write("docs/two.txt", "2\n")).code == 0
    return desk


def there(desk: Desk) -> list[str]:
    return [name for name in ("one.txt", "docs/two.txt") if (desk.repo / name).exists()]


def test_a_dot_is_all_of_it(worked: Desk) -> None:
    whole = worked.agents("plan", "diff", is_json=False).out
    assert worked.agents("plan", "diff", "@last", ".", is_json=False).out == whole
    assert worked.agents("plan", "apply", "@last", ".").code == 0
    assert there(worked) == ["one.txt", "docs/two.txt"]
    assert worked.agents("plan", "status").data["state"] == "applied"


@pytest.mark.parametrize(
    ("path", "found"),
    [("./one.txt", "one.txt"), ("docs/", "docs/two.txt"), ("docs/.", "docs/two.txt")],
)
def test_a_part_is_found_however_it_is_written(worked: Desk, path: str, found: str) -> None:
    assert f"b/{found}" in worked.agents("plan", "diff", "@last", path).data["patch"]
    assert worked.agents("plan", "apply", "@last", path).code == 0
    assert there(worked) == [found]


@pytest.mark.parametrize("to", ["worktree", "branch", "patch"])
@pytest.mark.parametrize("path", ["three.txt", "/one.txt", "../one.txt", ""])
def test_what_is_not_there_is_named_and_nothing_is_changed(
    worked: Desk, to: str, path: str
) -> None:
    refused = worked.agents("plan", "apply", "@last", path, "--to", to)
    assert refused.code == 2, refused.message
    assert (there(worked), list(worked.repo.glob("*.patch"))) == ([], [])
    assert worked.agents("plan", "diff", "@last", path).code == 2


@pytest.mark.parametrize("to", ["worktree", "branch", "patch"])
@pytest.mark.parametrize("path", [".", "./.github", ".github//workflows", "one.txt/../.github"])
def test_a_protected_path_needs_its_word_however_its_part_is_written(
    desk: Desk, to: str, path: str
) -> None:
    assert desk.run(write("one.txt", "1\n"), write(GUARDED, "on: push\n")).code == 0
    refused = desk.agents("plan", "apply", "@last", path, "--to", to)
    assert (refused.code, GUARDED in refused.message) == (3, True)
    assert list(desk.repo.glob("*.patch")) == []
    allowed = desk.agents("plan", "apply", "@last", path, "--to", to, "--allow-path", GUARDED)
    assert allowed.code == 0, allowed.message
