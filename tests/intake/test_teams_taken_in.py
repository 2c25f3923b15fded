"""Which roles work on a plan one after the other, and what is said of a list that is none."""

import os
from pathlib import Path

import pytest

from intake.taking_in import taken
from patchyard.configuration import user_file
from patchyard.domain.errors import UsageError


def test_the_first_of_the_list_works_and_the_others_look(top: Path) -> None:
    user_file(os.environ).parent.mkdir(parents=True, exist_ok=True)
    user_file(os.environ).write_text("roles: [developer, tester, reviewer]\n")
    spec = taken(top, validate=("make",)).spec
    assert (spec.charter.name, [each.name for each in spec.team]) == (
        "developer",
        ["tester", "reviewer"],
    )


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("[developer, tester, tester]", ":2:28: roles[2]: tester stands twice"),
        ("[developer, architect]", ":2:20: roles[1]: architect gives record and cannot look"),
        ("[reviewer, tester]", ":2:9: roles[0]: reviewer gives findings, so that others have"),
        ("[developer, testr]", ":2:20: roles[1]: unknown role 'testr'. Did you mean 'tester'?"),
    ],
)
def test_a_list_that_is_no_team_is_named_with_its_place(top: Path, listed: str, said: str) -> None:
    path = user_file(os.environ)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"limits: {{max_steps: 9}}\nroles: {listed}\n")
    with pytest.raises(UsageError) as caught:
        taken(top)
    assert f"{path}{said}" in caught.value.message
