"""A host over SSH that falls silent: it costs its own plan, within the time that a plan has."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from endings import ended
from mainjob.driver import Desk, finish, write
from patchyard.engine.parting import PARTING_S
from sshds import HOST, serving_ssh
from timing import promised

pytestmark = pytest.mark.service("sshd")

PATIENCE_S = 120
SILENT = """#!/bin/sh
test -e {folder}/heals && exec /usr/bin/python3 "$@"
test -e {folder}/begun && touch {folder}/silent && exec sleep 3000
touch {folder}/begun
exec /usr/bin/python3 "$@"
"""


@pytest.fixture
def far(desk: Desk) -> Iterator[Path]:
    """The folder of a host whose `python3` works at its first start, and again once it `heals`."""
    folder = desk.folder / "far"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python3").write_text(SILENT.format(folder=folder))
    (folder / "bin/python3").chmod(0o755)
    with serving_ssh("root", f"SetEnv PATH={folder}/bin:/usr/bin:/bin") as server:
        server.configure(desk.home)
        assert desk.agents("project", "create", "shop").code == 0
        assert desk.agents("resource", "add", "ssh-host", "far", "--host", HOST).code == 0
        assert desk.agents("project", "link-resource", "shop", "far").code == 0
        yield folder
        assert server.environments() == []


def told(desk: Desk) -> dict[str, list[dict[str, Any]]]:
    """The plan's events by their names."""
    found: dict[str, list[dict[str, Any]]] = {}
    for event in desk.agents("plan", "events", "@last").data["events"]:
        found.setdefault(event["event"], []).append(event)
    return found


def require_held_until_it_heals(desk: Desk, far: Path) -> None:
    """What stays there is known, and ended once the host answers again."""
    before = told(desk)
    assert "RetryPlanned" not in before
    assert [each for each in before["Noted"] if "is left to a later pass" in each["text"]]
    assert "EnvironmentEnded" not in before
    (far / "heals").touch()
    assert desk.agents("plan", "cancel", "@last").code == 0
    assert len(told(desk)["EnvironmentEnded"]) == 1


def test_it_costs_its_plan_no_more_than_the_time_limit(desk: Desk, far: Path) -> None:
    script = desk.script(write("new.txt", "new\n"), finish("done"))
    words = ("--model", f"scripted:{script}", "--in", "far", "--timeout", "20s")
    done = desk.agents("run", "do it", *words)
    assert done.code == 5, done.message
    assert "the time limit of 20 s is reached" in done.message
    require_held_until_it_heals(desk, far)


def test_a_signal_ends_the_command_all_the_same(desk: Desk, far: Path) -> None:
    script = desk.script(write("new.txt", "new\n"), finish("done"))
    process = desk.start("run", "do it", "--model", f"scripted:{script}", "--in", "far")
    ends = time.monotonic() + PATIENCE_S
    while not (far / "silent").exists():
        assert time.monotonic() < ends
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, err = ended(process, within_s=promised(PARTING_S))
    assert process.returncode == 130, err.decode()
    assert desk.agents("plan", "status", "@last").data["state"] == "cancelled"
    require_held_until_it_heals(desk, far)
