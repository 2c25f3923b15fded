"""Where plans are to work, by what is set at each level: kinds, linked resources, preferences."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from intake.taking_in import held, taken
from patchyard.clients.glimpse import glimpse
from patchyard.configuration import repository_files, user_file
from patchyard.domain.action import parse_action
from patchyard.domain.environment import ExecutionEnvironment as Kind
from patchyard.domain.errors import (
    LISTED,
    ContainerUnavailableError,
    UnknownName,
    UsageError,
)
from patchyard.domain.holdings import Holdings
from patchyard.domain.project import Project
from patchyard.domain.resource import Resource
from patchyard.domain.routing import route_of
from patchyard.engine.sites import general_kind


def test_run_without_any_setting_takes_process_as_its_own_default(top: Path) -> None:
    spec = taken(top).spec
    assert (spec.environment, spec.environment_source) == (Kind.PROCESS, "run-default")


def test_plan_use_without_any_setting_takes_host(top: Path) -> None:
    spec = taken(top, has_run_default=False).spec
    assert spec.environment is None
    assert general_kind(spec) == Kind.HOST


LEVELS: list[tuple[dict[str, Any], Kind]] = [
    ({"kind": "mock", "own": Kind.VM, "resource": Kind.SSH, "mode": "remote"}, Kind.MOCK),
    ({"kind": "host", "own": Kind.CONTAINER}, Kind.HOST),
    ({"kind": "far", "own": "guest"}, Kind.SSH),
    ({"own": "guest", "resource": "far"}, Kind.VM),
    ({"variable": "vm", "own": Kind.POD}, Kind.VM),
    ({"own": Kind.VM, "resource": Kind.SSH, "mode": "remote"}, Kind.VM),
    ({"resource": Kind.SSH, "mode": "remote"}, Kind.SSH),
    ({"mode": "remote", "user": "vm"}, Kind.POD),
    ({"user": "vm"}, Kind.VM),
    ({"mode": "local"}, Kind.HOST),
]


@pytest.mark.parametrize(("levels", "kind"), LEVELS)
def test_the_first_level_that_is_set_wins(top: Path, levels: dict[str, Any], kind: Kind) -> None:
    environ = {}
    if "mode" in levels:
        environ["AGENT_MODE"] = levels["mode"]
    if "variable" in levels:
        environ["PATCHYARD_EXECUTION_ENVIRONMENT"] = levels["variable"]
    if "user" in levels:
        path = user_file(os.environ)
        path.parent.mkdir(parents=True)
        path.write_text(f"execution_environment: {levels['user']}\n")
    resource = Resource(name="r", type="directory", execution_environment=levels.get("resource"))
    names = {"cluster": "kubernetes", "far": "ssh-host", "guest": "vm-image"}
    places = {name: Resource(name=name, type=type_) for name, type_ in names.items()}
    project = Project(
        name="p",
        repository=str(top),
        execution_environment=levels.get("own"),
        resources=("r", *names),
    )
    holdings = held(project, resources={"r": resource, **places})
    spec = taken(top, holdings, kind=levels.get("kind"), environ=environ).spec
    assert general_kind(spec) == kind
    assert spec.project == "p"


def test_a_wrong_environment_names_the_right_ones(top: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        taken(top, kind="dokcer")
    assert "docker" in caught.value.message
    assert caught.value.hint.startswith("known: container, devcontainer, host, ")


FILES = Resource(name="files", type="directory")
BOX = Resource(name="box", type="container-instance")


def test_a_resource_without_a_link_is_named_with_the_command_that_links_it(top: Path) -> None:
    own = Project(name="p", repository=str(top), resources=("files",))
    holdings = held(own, resources={"box": BOX, "files": FILES})
    with pytest.raises(
        UnknownName, match="box is a container-instance that is not linked to"
    ) as caught:
        taken(top, holdings, kind="box")
    assert caught.value.hint == "link it: `agents project link-resource p box`"
    with pytest.raises(UnknownName, match="not linked to a project of this checkout") as caught:
        taken(top, Holdings(resources={"box": BOX}), kind="box")
    assert "`agents project create PROJECT` where there is none yet" in caught.value.hint
    assert caught.value.hint.endswith("then `agents project link-resource PROJECT box`")
    user_file(os.environ).parent.mkdir(parents=True)
    user_file(os.environ).write_text("tools: {read_file: {execution_environment: box}}\n")
    with pytest.raises(UsageError, match=r"config\.yaml:.* not linked to the project p") as said:
        taken(top, holdings)
    assert said.value.hint == "link it: `agents project link-resource p box`"


def test_a_linked_folder_is_no_place_to_work_in_and_is_no_unknown_name(top: Path) -> None:
    own = Project(name="p", repository=str(top), resources=("files",))
    with pytest.raises(UsageError, match="files is a directory, in which nothing runs") as caught:
        taken(top, held(own, resources={"files": FILES}), kind="files")
    assert not isinstance(caught.value, UnknownName)


def test_many_linked_resources_are_listed_in_order_and_the_rest_is_counted(top: Path) -> None:
    names = [f"box{number:03}" for number in range(100)]
    boxes = {name: replace(BOX, name=name) for name in reversed(names)}
    own = Project(name="p", repository=str(top), resources=tuple(boxes))
    with pytest.raises(UnknownName, match="Did you mean 'box099'") as caught:
        taken(top, held(own, resources=boxes), kind="bx099")
    listed = ", ".join(names[:LISTED])
    assert caught.value.hint.endswith(f"; linked resources: {listed} and 50 more")


def test_a_wrong_tool_setting_names_the_linked_resources_too(top: Path) -> None:
    box = Resource(name="box", type="container-instance")
    holdings = held(
        Project(name="p", repository=str(top), resources=("box",)), resources={"box": box}
    )
    tools = {"read_file": {"preference": "specific", "target_resource": "bax"}}
    action = parse_action({"name": "a", "goal": "g", "tools": tools})
    with pytest.raises(UnknownName, match="Did you mean 'box'"):
        taken(top, holdings, action=action)
    tools["read_file"]["target_resource"] = "box"
    spec = taken(
        top, holdings, action=parse_action({"name": "a", "goal": "g", "tools": tools})
    ).spec
    assert route_of(spec, "read_file").resource == "box"


def test_an_actions_say_of_a_tool_takes_the_place_of_the_settings_say(top: Path) -> None:
    path = user_file(os.environ)
    path.parent.mkdir(parents=True)
    path.write_text(
        "tools: {read_file: {execution_environment: host}, grep_search: {preference: preferred}}\n"
    )
    tools = {"read_file": {"preference": "preferred"}}
    action = parse_action({"name": "a", "goal": "g", "tools": tools})
    spec = taken(top, held(Project(name="p", repository=str(top))), action=action).spec
    assert spec.tool_environments == {}
    assert set(spec.tool_preferences) == {"grep_search", "read_file"}


@pytest.mark.parametrize("where", ["option", "project", "tool"])
def test_container_without_a_linked_one_is_refused_before_anything_starts(
    top: Path, where: str
) -> None:
    own = Kind.CONTAINER if where == "project" else None
    holdings = held(Project(name="p", repository=str(top), execution_environment=own))
    body = {"name": "a", "goal": "g"}
    tools = {"execute_command": {"execution_environment": "container"}}
    action = parse_action({**body, "tools": tools} if where == "tool" else body)
    kind = "container" if where == "option" else None
    with pytest.raises(ContainerUnavailableError, match="no container resource") as caught:
        taken(top, holdings, kind=kind, action=action)
    assert "link-resource" in caught.value.hint


def test_several_linked_containers_are_refused_by_name(top: Path) -> None:
    names = ("one", "two")
    resources = {n: Resource(name=n, type="container-instance") for n in names}
    project = Project(name="p", repository=str(top), resources=names)
    holdings = held(project, resources=resources)
    with pytest.raises(UsageError, match="one, two"):
        taken(top, holdings, kind="container")
    alone = held(replace(project, resources=("one",)), resources=resources)
    assert taken(top, alone, kind="container").spec.environment == Kind.CONTAINER


@pytest.mark.parametrize(
    "said",
    [
        "execution_environment: far\n",
        "tools: {execute_command: {execution_environment: far}}\n",
        "tools: {execute_command: {preference: specific, target_resource: far}}\n",
        "tools: {execute_command: {preference: specific, target_resource: host}}\n",
    ],
)
def test_a_trusted_repository_moves_nothing_to_where_no_walls_are(top: Path, said: str) -> None:
    (top / ".patchyard").mkdir()
    (top / ".patchyard/config.yaml").write_text(said)
    digest = repository_files(glimpse(top, None)).digest
    project = Project(name="p", repository=str(top), resources=("far",))
    far = Resource(name="far", type="ssh-host")
    holdings = held(project, resources={"far": far}, trusted={str(top): digest})
    made = taken(top, holdings)
    assert route_of(made.spec, "execute_command").kind == Kind.PROCESS
    assert "never a repository's to decide" in made.warnings[0]
