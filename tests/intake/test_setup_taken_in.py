"""Setup commands where a plan works that does not run them: refused, or said before it begins."""

from pathlib import Path

import pytest

from intake.taking_in import held, taken
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import UsageError
from patchyard.domain.holdings import Holdings
from patchyard.domain.project import Project
from patchyard.domain.resource import Resource

BARE = Resource(name="far", type="ssh-host")
WALLED = Resource(name="far", type="ssh-host", carries=ExecutionEnvironment.PROCESS)
NOT_RUN = "setup commands are not run on ssh"


def linked(top: Path, far: Resource, setup: tuple[str, ...] | None = None) -> Holdings:
    project = Project(name="p", repository=str(top), resources=("far",), setup=setup)
    return held(project, resources={"far": far})


@pytest.mark.parametrize("far", [BARE, WALLED])
def test_setup_that_was_typed_is_refused_on_another_host(top: Path, far: Resource) -> None:
    with pytest.raises(UsageError, match=f"--setup means nothing on ssh: {NOT_RUN}") as refused:
        taken(top, linked(top, far), kind="far", setup=("make deps",))
    assert refused.value.exit_code == 2
    assert "install it on that host" in (refused.value.hint or "")


@pytest.mark.parametrize("far", [BARE, WALLED])
def test_setup_of_a_project_is_said_not_to_be_run_on_another_host(top: Path, far: Resource) -> None:
    made = taken(top, linked(top, far, ("make deps",)), kind="far")
    assert made.spec.setup == ("make deps",)
    assert made.notes[-1].startswith(NOT_RUN)


def test_setup_that_was_detected_is_said_not_to_be_run_on_another_host(top: Path) -> None:
    (top / "requirements.txt").write_text("attrs\n")
    notes = taken(top, linked(top, BARE), kind="far").notes
    assert any("setup found by" in each for each in notes), notes
    assert notes[-1].startswith(NOT_RUN)


def test_setup_that_was_typed_is_said_not_to_be_run_on_this_host(top: Path) -> None:
    made = taken(top, kind="host", setup=("make deps",))
    assert made.notes[-1].startswith("setup commands are not run on host")


@pytest.mark.parametrize("asked", [{"kind": "far"}, {"kind": "far", "setup": ("",)}])
def test_without_setup_nothing_is_said(top: Path, asked: dict[str, object]) -> None:
    notes = taken(top, linked(top, BARE), **asked).notes
    assert not any(NOT_RUN in each for each in notes), notes


def test_where_setup_runs_nothing_is_said(top: Path) -> None:
    notes = taken(top, kind="process", setup=("make deps",)).notes
    assert not any("not run on" in each for each in notes), notes
