"""A plan in gVisor, by the command line: what is kept of a resource, where its gates run."""

import os
import subprocess

import pytest

from images import WITH_PYTHON, image
from mainjob.driver import Desk, finish, write
from patchyard.domain.gvisor import day_of, is_old, note_of

pytestmark = [
    *(pytest.mark.service(name) for name in ("bubblewrap", "runsc")),
]


def test_a_plan_and_its_gates_run_in_gvisor_and_the_resource_says_so(desk: Desk) -> None:
    desk.agents("project", "create", "shop")
    words = ["resource", "add", "container-instance", "box", "--image", image(WITH_PYTHON)]
    wrong = desk.agents(*words, "--runtime", "runscc")
    assert (wrong.code, "Did you mean 'runsc'" in wrong.message) == (2, True), wrong.message
    assert "runc, runsc" in str(wrong.body)
    assert desk.agents(*words, "--runtime", "runsc").code == 0
    assert desk.agents("resource", "show", "box").data["runtime"] == "runsc"
    desk.agents("project", "link-resource", "shop", "box")
    tried = desk.agents("env", "check", "box")
    said = subprocess.run(["runsc", "--version"], check=True, capture_output=True, text=True)
    day = day_of(said.stdout)
    facts = tried.data["facts"]
    assert (tried.code, tried.data["strength"], facts["note"]) == (0, 3, note_of(day))
    assert facts["gvisor"] == day
    findings = {each["name"]: each for each in desk.agents("doctor").data["findings"]}
    assert ("runtime runsc" in findings) == is_old(day)
    assert {"runtime runsc-current", "runtime runsc-systrap"}.isdisjoint(findings)

    recording = desk.folder / "recorded.jsonl"
    script = desk.script(write("a.txt", "a\n"), finish("done"))
    run = ["run", "do it", "--model", f"scripted:{script}", "--record", str(recording)]
    gate = f'test "$(uname -r)" != {os.uname().release}'
    done = desk.agents(*run, "--in", "box", "--validate", gate)
    assert done.code == 0, done.message
    assert set(done.changed) == {"a.txt"}
    events = desk.agents("plan", "events", "@last").data["events"]
    started = [each["handle"] for each in events if each["event"] == "EnvironmentStarted"]
    assert {each["resource"] for each in started} == {"box"}
    assert all("monitor" in each["details"] for each in started)

    desk.agents("resource", "add", "container-instance", "plain", "--image", image(WITH_PYTHON))
    desk.agents("project", "link-resource", "shop", "plain")
    again = ["run", "do it", "--model", f"recorded:{recording}", "--in", "plain"]
    weaker = desk.agents(*again)
    assert weaker.code == 2, weaker.message
    assert "was recorded in container/runsc, and container is weaker" in weaker.message


def test_a_runtime_is_for_containers_alone(desk: Desk) -> None:
    wrong = desk.agents("resource", "add", "directory", "d", "--runtime", "runsc")
    assert (wrong.code, "--runtime is not for directory" in wrong.message) == (2, True)
