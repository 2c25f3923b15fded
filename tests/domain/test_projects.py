"""Projects and resources: unset by default, host in effect (A2, A4, A5, A13, A14)."""

from typing import Any

import pytest

from patchyard.domain import resource
from patchyard.domain.environment import ExecutionEnvironment, Priority, Site
from patchyard.domain.errors import (
    ContainerUnavailableError,
    EnvironmentUnavailable,
    UnknownName,
    UsageError,
)
from patchyard.domain.faults import Fault
from patchyard.domain.limit_settings import LimitSettings
from patchyard.domain.plan import PlanSpec
from patchyard.domain.project import Project, context_value
from patchyard.domain.resource import Resource, site_named
from patchyard.domain.routing import Chain, ExecutionEnvironmentResolver


def test_the_environment_of_project_plan_and_resource_is_unset_and_means_host() -> None:
    project = Project(name="p", repository="/r")
    resource = Resource(name="r", type="directory")
    plan = PlanSpec(task="t", repository="/r")
    found = {
        project.execution_environment, resource.execution_environment, plan.environment,
    }  # fmt: skip
    assert found == {None}
    assert plan.default_environment == "host"
    assert ExecutionEnvironmentResolver().resolve(Chain()).kind == ExecutionEnvironment.HOST


def test_no_container_is_an_error_that_says_how_to_link_one() -> None:
    directory = Resource(name="d", type="directory")
    with pytest.raises(ContainerUnavailableError) as caught:
        site_named("container", [directory])
    assert caught.value.exit_code == 4
    assert "agents project link-resource" in caught.value.hint
    assert "devcontainer" in caught.value.hint


def test_one_container_is_taken_and_several_are_refused_by_name() -> None:
    one = Resource(name="one", type="container-instance")
    two = Resource(name="two", type="devcontainer-instance")
    assert site_named("container", [one]) == Site(ExecutionEnvironment.CONTAINER, "one")
    assert site_named("container", [two]) == Site(ExecutionEnvironment.DEVCONTAINER, "two")
    with pytest.raises(UsageError, match="one, two") as caught:
        site_named("container", [one, two])
    assert caught.value.exit_code == 2


def test_a_linked_resource_is_a_place_by_its_name() -> None:
    box, far = (
        Resource(name="box", type="container-instance"),
        Resource(name="far", type="ssh-host"),
    )
    assert site_named("far", [box, far]) == Site(ExecutionEnvironment.SSH, "far")
    assert str(site_named("box", [box, far])) == "box"
    assert site_named("ssh", [box, far]) == site_named("far", [far])


def test_what_is_linked_and_runs_nothing_is_no_place() -> None:
    data = Resource(name="data", type="directory")
    with pytest.raises(UsageError, match="data is a directory, in which nothing runs"):
        site_named("data", [data, Resource(name="box", type="container-instance")])


def test_an_unknown_place_lists_kinds_and_linked_resources() -> None:
    linked = [Resource(name="box", type="container-instance"), Resource(name="d", type="directory")]
    with pytest.raises(UnknownName, match="Did you mean 'box'") as caught:
        site_named("bax", linked)
    assert caught.value.hint.startswith("known: container, devcontainer, host, mock, process, ")
    assert caught.value.hint.endswith("; linked resources: box")


def test_a_host_to_reach_that_is_not_linked_is_exit_4_with_the_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "HERE", tuple(ExecutionEnvironment))
    with pytest.raises(EnvironmentUnavailable, match="no ssh-host is linked") as caught:
        site_named("ssh", [])
    assert caught.value.exit_code == 4
    assert "agents resource add ssh-host NAME --host HOST" in caught.value.hint


@pytest.mark.parametrize(
    ("key", "value", "kept"),
    [
        ("execution_environment", "container", ExecutionEnvironment.CONTAINER),
        ("execution_environment", "local", ExecutionEnvironment.HOST),
        ("execution_env_priority", "override", Priority.OVERRIDE),
        ("execution_env_discovery", True, True),
        ("validate", ["pytest -q"], ("pytest -q",)),
        ("setup", [], ()),
        ("protected_paths", ["db/*"], ("db/*",)),
        (
            "limits",
            {"budget_usd": 1.5, "timeout": "30m", "rounds": 0},
            LimitSettings(budget_usd=1.5, timeout=1800.0, rounds=0),
        ),
        ("limits", None, None),
    ],
)
def test_a_context_value_is_kept_in_its_own_type(key: str, value: Any, kept: Any) -> None:
    assert context_value(key, value) == kept


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("execution_environment", 3, "name of an environment"),
        ("execution_environment", "", "unknown execution environment"),
        ("execution_env_priority", "high", "fallback"),
        ("execution_env_discovery", "maybe", "true or false"),
        ("validate", 3, "list of texts"),
        ("limits", {"usd": 1}, "unknown key"),
        ("limits", {"max_steps": -1}, "whole number"),
        ("limits", {"max_steps": True}, "whole number"),
        ("limits", {"budget_usd": float("nan")}, "a number"),
        ("limits", {"timeout": "soon"}, "duration"),
        ("protected_path", [], "did you mean 'protected_paths'"),
    ],
)
def test_a_context_value_that_does_not_fit_is_refused(key: str, value: Any, words: str) -> None:
    with pytest.raises(Fault, match=words):
        context_value(key, value)
