"""A branch of a plan that git cannot read, as a power cut leaves one: no command passes over it."""

import pytest

from mainjob.driver import Desk, finish, git, write

pytestmark = [pytest.mark.service("bubblewrap")]


def test_a_repository_of_a_format_that_this_git_does_not_know_is_named_with_its_cure(
    desk: Desk,
) -> None:
    git(desk.repo, "config", "core.repositoryFormatVersion", "1")
    git(desk.repo, "config", "extensions.refStorage", "of-later")
    refused = desk.run(write("one.txt", "1"), finish())
    assert refused.code == 2
    assert f"{desk.repo} is not a repository git can read" in refused.message
    looked = {each["name"]: each for each in desk.agents("doctor").data["findings"]}
    assert f"{desk.repo} is not a repository git can read" in looked["checkout"]["said"]
    assert "a newer git reads it" in looked["checkout"]["cure"]


def test_a_broken_branch_is_named_with_its_cure_by_every_command(desk: Desk) -> None:
    assert desk.run(write("one.txt", "1"), finish()).code == 0
    to = ("--to", "branch", "--name", "made")
    assert desk.agents("plan", "apply", "@last", *to).code == 0
    commit = git(desk.repo, "rev-parse", "made").strip()
    place = desk.repo / ".git/refs/heads/made"
    place.write_bytes(b"")

    for words, code in (
        (("plan", "apply", "@last", *to), 3),
        (("plan", "unapply", "@last"), 3),
        (("plan", "verify", "@last"), 1),
    ):
        answer = desk.agents(*words)
        assert answer.code == code
        assert f"refs/heads/made of {desk.repo} is broken" in answer.message
    looked = {each["name"]: each for each in desk.agents("doctor").data["findings"]}
    assert "refs/heads/made" in looked["checkout"]["said"]
    assert f"rm {place}" in looked["checkout"]["cure"]

    place.unlink()
    verified = desk.agents("plan", "verify", "@last")
    assert verified.code == 0
    assert "branch made is gone" in verified.data["gone"][0]
    assert desk.agents("plan", "apply", "@last", *to).code == 0
    assert git(desk.repo, "rev-parse", "made").strip() == commit
    assert desk.agents("plan", "verify", "@last").data["gone"] == []
    assert desk.agents("plan", "unapply", "@last").code == 0
    assert not place.exists()
