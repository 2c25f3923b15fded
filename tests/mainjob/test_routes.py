"""Where calls really run, by what people set: priorities, and a container that is linked."""

import json
from typing import Any

import pytest

from images import WITH_PYTHON, WITHOUT_PYTHON, image
from mainjob.driver import Answer, Desk, finish, shell, write

pytestmark = [pytest.mark.service("bubblewrap")]

ACTION = """
name: note
goal: leave a note
steps: [{run: "echo noted > note.txt"}]
"""


def asked(desk: Desk, plan: str = "@last") -> list[tuple[str, str]]:
    """Kind and level of each call of a plan, as the journal has them."""
    events = desk.agents("plan", "events", plan).data["events"]
    calls = [event for event in events if event["event"] == "ToolCallRequested"]
    return [(call["kind"], call["level"]) for call in calls]


def calls(desk: Desk) -> list[dict[str, Any]]:
    """The calls of the newest plan's last work, as the journal has them."""
    events = desk.agents("plan", "events", "@last").data["events"]
    return [event for event in events if event["event"] == "ToolCallRequested"]


def linked(desk: Desk, **images: str) -> None:
    """Link a container of each name to the project `shop`."""
    desk.agents("project", "create", "shop")
    for name, reference in images.items():
        own = ["--image", reference] if reference else []
        desk.agents("resource", "add", "container-instance", name, *own)
        assert desk.agents("project", "link-resource", "shop", name).code == 0


def used(desk: Desk, *options: str, action: str = ACTION) -> Answer:
    (desk.folder / "note.yaml").write_text(action)
    desk.agents("action", "create", "--file", str(desk.folder / "note.yaml"))
    made = desk.agents("plan", "use", "note", "shop", *options)
    assert made.code == 0, made.message
    return desk.agents("plan", "execute", made.data["plan_id"])


def test_a_plan_reaches_what_its_commands_reach_wherever_else_it_works(desk: Desk) -> None:
    desk.agents("project", "create", "shop")
    tools = "tools: {execute_command: {execution_environment: host}}\n"
    assert used(desk, "--execution-environment", "process", action=ACTION + tools).code == 0
    reach = desk.agents("plan", "status", "@last").data["reach"]
    assert (reach["kind"], reach["walls"], reach["also"]) == ("process", "host", ["host"])
    assert reach["network"]["summary"] == "all that this machine reaches"


@pytest.mark.parametrize(
    ("priority", "options", "level"),
    [
        ("override", [], "project"),
        ("fallback", [], "plan"),
        ("override", ["--execution-env-priority", "override"], "plan"),
    ],
)
def test_priorities_reach_the_calls_themselves(
    desk: Desk, priority: str, options: list[str], level: str
) -> None:
    desk.agents("project", "create", "shop")
    desk.agents("project", "context", "set", "execution_environment", "process")
    desk.agents("project", "context", "set", "execution_env_priority", priority)
    done = used(desk, "--execution-environment", "process", *options)
    assert done.code == 0, done.message
    assert asked(desk) == [("process", level)]


@pytest.mark.service("docker")
def test_a_linked_container_does_the_main_job(desk: Desk) -> None:
    desk.agents("project", "create", "shop")
    box = ("container-instance", "box", "--image", image(WITH_PYTHON))
    made = desk.agents("resource", "add", *box)
    assert made.data["image"] == image(WITH_PYTHON)
    assert desk.agents("project", "link-resource", "shop", "box").code == 0
    script = desk.script(
        shell("cp /etc/passwd seen.txt; ls -A / >> seen.txt; echo ignored > /tmp/x"),
        write("new.txt", "new\n"),
        finish("done"),
    )
    words = ["run", "do it", "--model", f"scripted:{script}", "--in", "container"]
    done = desk.agents(*words, "--validate", "grep -q agent seen.txt && ! test -e /tmp/x")
    assert done.code == 0, done.message
    assert done.changed == {"new.txt": "added", "seen.txt": "added"}
    assert {kind for kind, _ in asked(desk)} == {"container"}
    assert [gate["passed"] for gate in done.data["validation"]] == [True]
    again = desk.agents("plan", "replay", done.data["plan_id"])
    assert again.data["replay"]["is_same"], again.message


@pytest.mark.service("docker")
def test_of_two_containers_the_one_that_is_named_is_used(desk: Desk) -> None:
    linked(desk, box=image(WITH_PYTHON), other=image(WITH_PYTHON))
    script = desk.script(shell("true"), finish("done"))
    words = ["run", "do it", "--model", f"scripted:{script}", "--require-changes"]
    unclear = desk.agents(*words, "--in", "container")
    assert (unclear.code, "several linked resources: box, other" in unclear.message) == (2, True)
    script = desk.script(write("a.txt", "a\n"), finish("done"))
    done = desk.agents("run", "do it", "--model", f"scripted:{script}", "--in", "other")
    assert done.code == 0, done.message
    (call,) = calls(desk)
    assert (call["kind"], call["resource"], call["level"]) == ("container", "other", "plan")
    routes = desk.agents("plan", "route", "@last", "read_file").data["routes"]
    assert routes[0]["resource"] == "other"
    set_again = desk.agents("project", "context", "set", "execution_environment", "box")
    assert set_again.code == 0, set_again.message
    wrong = desk.agents("project", "context", "set", "execution_environment", "bax")
    assert (wrong.code, "Did you mean 'box'" in wrong.message) == (2, True), wrong.message


@pytest.mark.service("docker")
def test_a_tool_that_names_a_container_gets_that_one_and_no_other(desk: Desk) -> None:
    linked(desk, box=image(WITHOUT_PYTHON), other=image(WITHOUT_PYTHON))
    specific = {"execute_command": {"preference": "specific", "target_resource": "other"}}
    path = desk.script(shell("echo done > new.txt"), write("a.txt", "a\n"))
    words = ("run", "x", "--model", f"scripted:{path}", "--in", "process")
    done = desk.agents(*words, environ={"PATCHYARD_TOOLS": json.dumps(specific)})
    assert done.code == 0, done.message
    assert done.changed == {"a.txt": "modified", "new.txt": "added"}
    sent = [(call["kind"], call.get("resource", ""), call["level"]) for call in calls(desk)]
    assert sent == [("container", "other", "tool"), ("process", "", "plan")]


PREFERRING = """
name: note
goal: leave a note
steps: [{run: "echo noted > note.txt"}]
tools: {execute_command: {preference: preferred}}
"""


@pytest.mark.parametrize("place", ["host", "process"])
def test_a_preferred_container_that_does_not_start_is_given_up_once_and_never_below_process(
    desk: Desk, place: str
) -> None:
    linked(desk, box="none/such:1")
    done = used(desk, "--execution-environment", place, action=PREFERRING)
    assert done.code == 0, done.message
    (call,) = calls(desk)
    assert (call["kind"], call["level"]) == ("process", "plan")
    assert "the tool prefers container: " in call["reason"]
    reach = done.data["reach"]
    assert (reach["kind"], reach["walls"]) == (place, place)
    assert reach["also"] == (["process"] if place == "host" else [])
    events = desk.agents("plan", "events", "@last").data["events"]
    (fell,) = [event for event in events if event["event"] == "PreferenceFell"]
    assert fell["place"] == "box"
    route = desk.agents("plan", "route", "@last", "execute_command").data["routes"][0]
    assert route["kind"] == "process"


def test_what_requires_a_container_never_runs_elsewhere(desk: Desk) -> None:
    desk.agents("project", "create", "shop")
    (desk.folder / "note.yaml").write_text(PREFERRING.replace("preferred", "required"))
    desk.agents("action", "create", "--file", str(desk.folder / "note.yaml"))
    refused = desk.agents("plan", "use", "note", "shop")
    assert (refused.code, "no container resource is linked" in refused.message) == (4, True)


def test_a_resource_cannot_bear_the_word_of_a_kind_nor_name_a_place_that_is_not(desk: Desk) -> None:
    taken = desk.agents("resource", "add", "container-instance", "docker", "--image", "x")
    assert (taken.code, "is the word for a kind" in taken.message) == (2, True), taken.message
    lost = desk.agents("resource", "add", "directory", "d", "--execution-environment", "bix")
    assert (lost.code, "unknown execution environment" in lost.message) == (2, True), lost.message


def test_a_resource_that_is_not_linked_is_told_with_the_command_wherever_it_is_named(
    desk: Desk,
) -> None:
    desk.agents("project", "create", "shop")
    desk.agents("resource", "add", "container-instance", "box", "--image", "x")
    use = ("plan", "use", "licence-headers", "shop", "--arg", "holder=Ada", "--no-strategize")
    desk.agents(*use, "--in", "process")
    desk.agents("plan", "strategize", "@last")
    for words in (
        (*use, "--in", "box"),
        ("plan", "execute", "@last", "--in", "box"),
        ("project", "context", "set", "execution_environment", "box"),
    ):
        said = desk.agents(*words)
        assert (said.code, said.body["error"]["code"]) == (2, "unknown_name"), words
        assert "box is a container-instance that is not linked to the project shop" in said.message
        assert said.message.endswith("link it: `agents project link-resource shop box`")


@pytest.mark.service("docker")
def test_an_image_that_is_not_there_is_exit_4_with_the_cure(desk: Desk) -> None:
    desk.agents("project", "create", "shop")
    desk.agents("resource", "add", "container-instance", "box", "--image", "none/such:1")
    desk.agents("project", "link-resource", "shop", "box")
    script = desk.script(shell("true"), finish("done"))
    lost = desk.agents("run", "do it", "--model", f"scripted:{script}", "--in", "container")
    assert (lost.code, "no image 'none/such:1'" in lost.message) == (4, True), lost.message
    assert "pull" in lost.message


def test_an_image_is_for_containers_alone(desk: Desk) -> None:
    wrong = desk.agents("resource", "add", "directory", "d", "--image", "x")
    assert (wrong.code, "--image is not for directory" in wrong.message) == (2, True)


@pytest.mark.service("docker")
def test_a_container_that_names_no_image_has_that_of_the_language(desk: Desk) -> None:
    linked(desk, box="")
    (desk.repo / ".python-version").write_text("3.12\n")
    script = desk.script(shell("true"), finish("done"))
    words = ["run", "do it", "--model", f"scripted:{script}", "--in", "box"]
    lost = desk.agents(*words)
    assert (lost.code, "no image 'python:3'" in lost.message) == (4, True), lost.message
    assert "image of box: python:3 (by " in lost.err
    path = desk.home / ".config" / "patchyard" / "config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"images: {{python: '{image(WITH_PYTHON)}'}}\n")
    script = desk.script(write("b.txt", "b\n"), finish("done"))
    done = desk.agents("run", "do it", "--model", f"scripted:{script}", "--in", "box")
    assert done.code == 0, done.message


@pytest.mark.service("docker")
def test_a_resource_can_be_tried_by_its_name(desk: Desk) -> None:
    linked(desk, box=image(WITHOUT_PYTHON), lost="none/such:1")
    there = desk.agents("env", "check", "box")
    assert (there.code, there.data["kind"], there.data["is_ready"]) == (0, "container", True)
    assert there.data["facts"]["resource"] == "box"
    away = desk.agents("env", "check", "lost")
    assert (away.code, "no image 'none/such:1'" in away.message) == (4, True), away.message
    wrong = desk.agents("env", "check", "bax")
    assert (wrong.code, "Did you mean 'box'" in wrong.message) == (2, True), wrong.message
    desk.agents("resource", "add", "directory", "d", "--path", ".")
    odd = desk.agents("env", "probe", "d")
    assert (odd.code, "nothing can be started" in odd.message) == (2, True), odd.message
