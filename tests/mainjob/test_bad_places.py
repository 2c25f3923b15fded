"""Places that cannot be had, as a user meets them: what is wrong, where, and what cures it."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from images import BUSYBOX, WITHOUT_PYTHON, bare_image, image
from mainjob.devcontainers import added, described, ran, state
from mainjob.driver import Answer, Desk, finish, git, shell, write
from patchyard.clients import ssh
from sshds import HOST, serving_ssh

CONFIG = ".devcontainer/devcontainer.json"


def linked(desk: Desk, *words: str) -> None:
    """A project with that resource, whose name comes second."""
    desk.agents("project", "create", "shop")
    made = desk.agents("resource", "add", *words)
    assert made.code == 0, made.message
    assert desk.agents("project", "link-resource", "shop", words[1]).code == 0


def require_refused(answer: Answer, code: int, *words: str) -> None:
    missing = [word for word in words if word not in answer.message]
    assert (answer.code, missing) == (code, []), answer.message
    assert answer.body["error"]["hint"]


@pytest.mark.service("docker")
@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (lambda: "none/such:1", ("no image 'none/such:1' here", "`docker pull none/such:1`")),
        (lambda: bare_image({}), ("the image has no shell", "/bin/sh")),
        (lambda: bare_image({}, architecture="s390x"), ("is for linux/s390x", "linux/amd64")),
    ],
    ids=["missing", "without a shell", "of another architecture"],
)
def test_an_image_that_will_not_do(desk: Desk, reference: Any, words: tuple[str, ...]) -> None:
    linked(desk, "container-instance", "box", "--image", reference())
    require_refused(desk.run(shell("true"), in_="box"), 4, *words)
    events = [each["event"] for each in desk.agents("plan", "events", "@last").data["events"]]
    assert ("TurnRequested" in events) == (words[0] == "the image has no shell"), events
    require_refused(desk.agents("env", "check", "box"), 4, *words)


@pytest.mark.parametrize("way", [("--mount", "{mount}:ro"), ("--env", "NAME=caf\udce9")])
def test_what_is_no_utf8_is_refused_for_a_container_before_there_is_a_plan(
    desk: Desk, way: tuple[str, str]
) -> None:
    mount = desk.folder / "caf\udce9"
    mount.mkdir(exist_ok=True)
    linked(desk, "container-instance", "box", "--image", "none/such:1")
    words = [word.format(mount=mount) for word in way]
    answer = desk.agents("run", "do it", "--in", "box", *words)
    require_refused(answer, 2, "takes no text that is not UTF-8", "caf\\udce9")
    assert desk.agents("plan", "list", "--all").data["plans"] == []


@pytest.mark.service("docker")
def test_comments_and_unknown_keys_of_a_devcontainer_stop_nothing(desk: Desk) -> None:
    described(desk, {"image": bare_image(BUSYBOX), "imagination": {"a": [1]}, "extra": None})
    text = (desk.repo / CONFIG).read_text().replace("{", "{ // said\n/* so */", 1)
    (desk.repo / CONFIG).write_text(text.replace("}", ",}", 1))
    git(desk.repo, "commit", "-qam", "comments")
    added(desk)
    desk.agents("project", "link-resource", "shop", "co-devcontainer")
    done = ran(desk, "--in", "co-devcontainer")
    assert (done.code, done.changed) == (0, {"x.txt": "added"}), done.message
    assert "extra, imagination count for nothing here" in done.err


DANGERS: dict[str, Any] = {
    "initializeCommand": "touch /tmp/out",
    "runArgs": ["--privileged"],
    "privileged": True,
    "capAdd": ["SYS_PTRACE"],
    "securityOpt": ["seccomp=unconfined"],
    "mounts": ["source=/,target=/host,type=bind"],
    "workspaceMount": "source=/,target=/host,type=bind",
    "dockerComposeFile": "compose.yml",
    "service": "app",
    "runServices": ["db"],
    "build": {"dockerfile": "D", "options": ["--network=host"]},
    "containerEnv": {"TOKEN": "${localEnv:TOKEN}"},
}


def test_all_dangerous_keys_are_refused_at_once_and_by_name(desk: Desk) -> None:
    described(desk, {"image": "i", **DANGERS})
    added(desk)
    desk.agents("project", "link-resource", "shop", "co-devcontainer")
    names = {"build": "build.options", "containerEnv": "${localEnv:TOKEN}"}
    words = [names.get(key, key) for key in DANGERS]
    require_refused(ran(desk, "--in", "co-devcontainer"), 3, CONFIG, *words, "agents trust")


def build_of(desk: Desk, dockerfile: str) -> Answer:
    """Let a plan go to a devcontainer that is built so."""
    base = image(WITHOUT_PYTHON)
    described(desk, {"build": {"dockerfile": "Dockerfile", "args": {"BASE": base}}})
    place = desk.repo / ".devcontainer" / "Dockerfile"
    if dockerfile.startswith("->"):
        place.symlink_to("Other")
        place.with_name("Other").symlink_to("Dockerfile")
    else:
        place.write_text(dockerfile)
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-qm", "build")
    added(desk)
    desk.agents("project", "link-resource", "shop", "co-devcontainer")
    return ran(desk, "--in", "co-devcontainer")


@pytest.mark.service("docker")
@pytest.mark.parametrize(
    ("dockerfile", "words"),
    [
        ("FROM two AS one\nFROM one AS two\n", (":1: there is no image 'two'", "in a circle")),
        ("FROM self AS self\n", (":1: there is no image 'self'", "in a circle")),
        ("-> Other -> Dockerfile", ("its links go in a circle",)),
        ("ARG BASE\nFROM $BASE\nCOPY x\n", ("does not build", "COPY requires")),
    ],
    ids=["of stages", "of one stage", "of links", "without a circle"],
)
def test_a_dockerfile_that_goes_in_a_circle_or_does_not_build(
    desk: Desk, dockerfile: str, words: tuple[str, ...]
) -> None:
    lost = build_of(desk, dockerfile)
    require_refused(lost, 4, ".devcontainer/Dockerfile", *words)
    assert state(desk) == "failed"


@contextmanager
def listening() -> Iterator[tuple[int, list[bytes]]]:
    """A port of this machine, and what came in there."""
    heard: list[bytes] = []

    def hear(listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                heard.append(peer.recv(100))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=hear, args=(listener,))
        thread.start()
        yield listener.getsockname()[1], heard
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


@pytest.mark.service("docker")
@pytest.mark.parametrize(
    "line",
    [
        "ADD http://127.0.0.1:{port}/x /x",
        "FROM 127.0.0.1:{port}/x/y:1",
        "COPY --from=127.0.0.1:{port}/x / /",
    ],
)
def test_no_build_has_the_engine_ask_around(desk: Desk, line: str) -> None:
    with listening() as (port, heard):
        lost = build_of(desk, f"ARG BASE\nFROM $BASE\n{line.format(port=port)}\n")
    require_refused(lost, 4, ".devcontainer/Dockerfile:3: ")
    assert heard == []


def test_an_unknown_kind_or_resource_is_answered_with_those_there_are(desk: Desk) -> None:
    linked(desk, "container-instance", "box", "--image", "i")
    words = ("box", "container", "devcontainer", "host", "mock", "process", "ssh", "vm")
    require_refused(desk.run(shell("true"), in_="bx"), 2, "'bx'", "mean 'box'", *words)
    unlinked = desk.agents("project", "link-resource", "shop", "bx")
    require_refused(unlinked, 2, "'bx'", "box")
    kind = desk.agents("resource", "add", "containr", "b")
    assert (kind.code, "container-instance" in kind.err + kind.out.decode()) == (2, True)


def test_who_still_sends_work_to_a_place_that_is_removed_is_named(desk: Desk) -> None:
    linked(desk, "container-instance", "box", "--image", "i")
    linked(desk, "directory", "docs", "--execution-environment", "box")
    desk.agents("project", "context", "set", "execution_environment", "unset")
    gone = desk.agents("resource", "remove", "box", is_json=False).out.decode()
    assert "docs still sends work there: `agents resource remove docs`" in gone
    use = ("plan", "use", "licence-headers", "shop", "--arg", "holder=Ada", "--no-strategize")
    asker = "the linked resource docs asks for it: `agents resource remove docs`"
    require_refused(desk.agents(*use), 2, "unknown execution environment 'box'", asker)
    typed = desk.agents(*use, "--in", "box")
    assert (typed.code, "docs asks" in typed.message) == (2, False), typed.message
    desk.agents("resource", "add", "container-instance", "box", "--image", "i")
    desk.agents("project", "link-resource", "shop", "box")
    desk.agents("project", "context", "set", "execution_environment", "box")
    desk.agents("resource", "remove", "box")
    require_refused(desk.agents(*use), 2, "the project shop is set to work there")


@pytest.mark.parametrize(
    "words",
    [
        ("run", "x", "--limit", "memory=0"),
        ("run", "x", "--limit", "memory=-1"),
        ("resource", "add", "container-instance", "b", "--image", "i", "--memory", "0"),
        ("resource", "add", "container-instance", "b", "--image", "i", "--memory=-1G"),
        ("project", "context", "set", "environment_limits", "{memory: 0}"),
        ("project", "context", "set", "environment_limits", "{memory: -1}"),
    ],
    ids=" ".join,
)
def test_a_limit_of_zero_or_below_is_refused_with_the_least(
    desk: Desk, words: tuple[str, ...]
) -> None:
    desk.agents("project", "create", "shop")
    require_refused(desk.agents(*words), 2, "memory", "32 MiB")


def test_a_path_outside_is_refused_wherever_it_is_said(desk: Desk) -> None:
    outside = {"build": {"dockerfile": "../../Dockerfile"}}
    described(desk, outside)
    added(desk)
    desk.agents("project", "link-resource", "shop", "co-devcontainer")
    refused = ran(desk, "--in", "co-devcontainer")
    require_refused(refused, 2, CONFIG, "lies outside of the repository")
    made = desk.agents("run", "x", "--mount", f"{desk.folder}/state", "--in", "host")
    require_refused(made, 2, f"{desk.folder}/state")
    done = desk.run(
        write("../out.txt", "x\n"), write("/etc/out.txt", "x\n"), write("in", "x\n"), in_="host"
    )
    events = desk.agents("plan", "events", "@last").data["events"]
    settled = [event for event in events if event["event"] == "ToolCallSettled"]
    assert [each["success"] for each in settled] == [False, False, True]
    assert (done.code, done.changed) == (0, {"in": "added"}), done.message


@pytest.mark.service("sshd")
def test_a_host_that_is_slow_or_whose_key_has_changed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked(desk, "ssh-host", "far", "--host", HOST)
    with serving_ssh() as server:
        server.configure(desk.home, key="other_host_key.pub")
        changed = desk.run(shell("true"), finish(), in_="far")
        said = f"host key of {HOST} (port {server.port}) has changed"
        require_refused(changed, 4, said, "ssh-keygen -R")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            server.port = silent.getsockname()[1]
            server.configure(desk.home)
            monkeypatch.setattr(ssh, "CONNECT_S", 0.3)
            slow = desk.run(shell("true"), finish(), in_="far")
    require_refused(slow, 4, HOST, "0.3 s", "ssh -v")
    assert json.loads(slow.out)["error"]["code"] == "environment_unavailable"
