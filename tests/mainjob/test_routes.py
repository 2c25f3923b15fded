"""Where calls really run, by what people set: priorities, and a container that is linked."""

import pytest

from images import WITH_PYTHON, image
from mainjob.driver import Answer, Desk, finish, shell, write

pytestmark = [pytest.mark.service("bubblewrap"), pytest.mark.timeout(120)]

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


def used(desk: Desk, *options: str) -> Answer:
    (desk.folder / "note.yaml").write_text(ACTION)
    desk.agents("action", "create", "--file", str(desk.folder / "note.yaml"))
    made = desk.agents("plan", "use", "note", "shop", *options)
    assert made.code == 0, made.message
    return desk.agents("plan", "execute", made.data["plan_id"])


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
def test_an_image_that_is_not_there_is_exit_4_with_the_cure(desk: Desk) -> None:
    desk.agents("project", "create", "shop")
    desk.agents("resource", "add", "container-instance", "box", "--image", "none/such:1")
    desk.agents("project", "link-resource", "shop", "box")
    script = desk.script(shell("true"), finish("done"))
    lost = desk.agents("run", "do it", "--model", f"scripted:{script}", "--in", "container")
    assert (lost.code, "no image 'none/such:1'" in lost.message) == (4, True), lost.message
    assert "pull" in lost.message


def test_an_image_is_for_containers_alone_and_a_container_needs_one(desk: Desk) -> None:
    wrong = desk.agents("resource", "add", "directory", "d", "--image", "x")
    assert (wrong.code, "--image is not for directory" in wrong.message) == (2, True)
    bare = desk.agents("resource", "add", "container-instance", "box")
    assert (bare.code, "needs an image" in bare.message) == (2, True), bare.message
