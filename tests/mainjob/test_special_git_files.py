"""A named pipe among the files of a checkout's git directory is named by every command."""

import os

import pytest

from mainjob.driver import Desk, finish, write

pytestmark = [pytest.mark.service("bubblewrap")]


def test_each_command_that_needs_the_repository_names_a_pipe_in_it(desk: Desk) -> None:
    applied, plan = (desk.run(write("x", "x\n"), finish()).data["plan_id"] for _ in range(2))
    assert desk.agents("plan", "apply", applied).code == 0
    place = desk.repo / ".git/config.worktree"
    os.mkfifo(place)

    said = [
        desk.agents("plan", "apply", plan),
        desk.agents("plan", "unapply", applied),
        desk.run(finish()),
        desk.run(finish(), options=["--ref", "HEAD"]),
    ]

    for each in said:
        assert (each.code, f"{place} is no file" in each.message) == (2, True), each.message
    for words in (("trust",), ("plan", "diff", plan), ("plan", "verify", plan)):
        desk.agents(*words)  # ends
