"""Projects and resources: unset by default, host in effect (A2, A4, A5, A13, A14)."""

from typing import Any

import pytest

from patchyard.domain.environment import ExecutionEnvironment, Priority
from patchyard.domain.errors import ContainerUnavailableError, UsageError
from patchyard.domain.faults import Fault
from patchyard.domain.plan import PlanSpec
from patchyard.domain.project import LimitSettings, Project, context_value
from patchyard.domain.resource import Resource, container_of
from patchyard.domain.routing import Chain, ExecutionEnvironmentResolver


def test_the_environment_of_project_plan_and_resource_is_unset_and_means_host() -> None:
    project = Project(name="p", repository="/r")
    resource = Resource(name="r", type="directory")
    plan = PlanSpec(task="t", repository="/r")
    found = {
        project.execution_environment, resource.execution_environment, plan.environment,
    }  # fmt: skip
    assert found == {None}
    assert ExecutionEnvironmentResolver().resolve(Chain()).kind == ExecutionEnvironment.HOST


def test_no_container_is_an_error_that_says_how_to_link_one() -> None:
    directory = Resource(name="d", type="directory")
    with pytest.raises(ContainerUnavailableError) as caught:
        container_of([directory])
    assert caught.value.exit_code == 4
    assert "agents project link-resource" in caught.value.hint
    assert "devcontainer" in caught.value.hint


def test_one_container_is_taken_and_several_are_refused_by_name() -> None:
    one = Resource(name="one", type="container-instance")
    two = Resource(name="two", type="devcontainer-instance")
    assert container_of([one]) == one
    with pytest.raises(UsageError, match="one, two") as caught:
        container_of([one, two])
    assert caught.value.exit_code == 2


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
        ("execution_environment", "dokcer", "'docker'"),
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
