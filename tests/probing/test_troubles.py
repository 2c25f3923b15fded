"""What may be missing or break while the battery is at work."""

import asyncio
import ctypes
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from patchyard.domain.errors import EnvironmentBroken
from patchyard.probing import bait, listeners, running
from patchyard.probing.aftermath import borrowed, followed, setuid_carried, unnoticed
from patchyard.probing.attack import Attack, Control, Group, Run, Verdict
from patchyard.probing.evidence import said
from patchyard.probing.listeners import Listeners
from patchyard.probing.running import Inside, run_control
from patchyard.probing.scene import Scene
from patchyard.probing.victims import start_victim
from probing.halls import Hall
from services import REAL_ENVIRONMENT

pytestmark = pytest.mark.anyio

ATTACK = Attack(
    name="a",
    group=Group.PRIVILEGE,
    title="do it",
    script="become_root",
    evidence=said,
    control=Control.NAMESPACES,
)


def scene(folder: Path, **given: Any) -> Scene:
    token = secrets.token_hex(8)
    places = {"token": token, "control": False, "workspace": str(folder), "options": {}}
    return Scene(
        group=Group.PRIVILEGE,
        token=token,
        canary="canary-1",
        kept="canary-2",
        folder=folder,
        place=folder,
        given={**places, **given},
    )


class Mute:
    """A toolbox that gives one answer to everything, or breaks."""

    def __init__(self, answer: Mapping[str, Any] | None) -> None:
        self._answer = answer

    async def call(self, *_: Any, **__: Any) -> Mapping[str, Any]:
        if self._answer is None:
            raise EnvironmentBroken("it is gone")
        return self._answer

    async def attach(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError

    async def cancel(self, call_id: str) -> None:
        raise NotImplementedError

    async def forget(self, call_ids: tuple[str, ...]) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


async def test_a_place_that_breaks_is_what_came_of_it(tmp_path: Path) -> None:
    run = await Inside(Mute(None), lambda: "1").run(ATTACK, scene(tmp_path))
    assert (run.has_begun, run.refusal) == (False, "it is gone")


@pytest.mark.service("bubblewrap")
@pytest.mark.service("root")  # as an ordinary user both attacks work nowhere
async def test_an_attack_that_a_broken_place_cut_off_gets_a_place_of_its_own(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = break_runs(monkeypatch, "kernel-setting", times=1)
    names = ("kernel-setting", "kernel-log")
    assert await hall.verdicts("process", *names) == dict.fromkeys(names, Verdict.HELD)
    assert len(cut) == 1


@pytest.mark.service("bubblewrap")
@pytest.mark.service("root")
@pytest.mark.parametrize(("times", "verdict"), [(2, Verdict.HELD), (3, Verdict.NOT_SHOWN)])
async def test_a_place_of_its_own_that_breaks_is_replaced_once(
    hall: Hall, monkeypatch: pytest.MonkeyPatch, times: int, verdict: Verdict
) -> None:
    cut = break_runs(monkeypatch, "kernel-setting", times=times)
    assert await hall.verdicts("process", "kernel-setting") == {"kernel-setting": verdict}
    assert len(cut) == times


@pytest.mark.service("docker")
async def test_a_container_that_ended_below_an_attack_says_how(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Inside.run

    async def killed(inside: Inside, attack: Attack, scene: Scene) -> Run:
        names = [f"patchyard-{place.name}" for place in hall.station.runtime.glob("0*")]
        kill = ["docker", "kill", *names]
        await asyncio.to_thread(subprocess.run, kill, check=True, env=REAL_ENVIRONMENT)
        return await real(inside, attack, scene)

    monkeypatch.setattr(Inside, "run", killed)
    (ruling,) = (await hall.probe("container", "kernel-setting")).rulings
    assert ruling.verdict is Verdict.NOT_SHOWN
    assert ruling.note.endswith("; its container ended with exit code 137")


def break_runs(monkeypatch: pytest.MonkeyPatch, name: str, *, times: int) -> list[Inside]:
    """Break the place of the attack so often; the list grows by each broken one."""
    real = Inside.run
    cut: list[Inside] = []

    async def broken(inside: Inside, attack: Attack, scene: Scene) -> Run:
        if attack.name == name and len(cut) < times:
            cut.append(inside)
            inside = Inside(Mute(None), lambda: "1")
        return await real(inside, attack, scene)

    monkeypatch.setattr(Inside, "run", broken)
    return cut


async def test_a_script_that_says_nothing_did_not_begin(tmp_path: Path) -> None:
    toolbox = Mute({"message": "exit code 127", "stdout": "", "stderr": ""})
    run = await Inside(toolbox, lambda: "1").run(ATTACK, scene(tmp_path))
    assert (run.has_begun, run.refusal) == (False, "exit code 127")


class Slow(Mute):
    """A toolbox whose place takes longer than usual to come to a first word."""

    def __init__(self) -> None:
        super().__init__(None)
        self.given: list[float] = []

    async def call(self, *given: Any, **_: Any) -> Mapping[str, Any]:
        self.given.append(given[2]["timeout_s"])
        if len(self.given) == 1:
            return {"error": "TIMEOUT", "stdout": "", "stderr": ""}
        return {"error": "TIMEOUT", "stdout": "began:x\n", "stderr": ""}


async def test_a_script_that_had_no_time_to_begin_gets_more(tmp_path: Path) -> None:
    toolbox = Slow()
    run = await Inside(toolbox, lambda: "1").run(ATTACK, scene(tmp_path))
    assert toolbox.given == [10.0, 60.0]
    assert run.text == "began:x\n\nrefused: its time was up\n"


async def test_a_control_that_had_no_time_to_begin_gets_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, real, given = tmp_path / "python", running._end, []
    python.write_text(f"#!/bin/sh\nuntil [ -e {tmp_path}/go ]; do sleep 0.01; done\necho begun\n")
    python.chmod(0o755)

    async def end(process: asyncio.subprocess.Process, timeout_s: float) -> str:
        given.append(timeout_s)
        said = await real(process, 0 if len(given) == 1 else 60)
        (tmp_path / "go").touch()
        return said

    monkeypatch.setattr(running, "_end", end)
    monkeypatch.setattr(running, "toolbox_interpreter", lambda: SimpleNamespace(path=str(python)))
    attack = replace(ATTACK, control=Control.PLAIN)
    run = await run_control(attack, scene(tmp_path), identity=None)
    assert (run.text, given) == ("begun\n", [10.0, 60.0])


async def test_a_control_that_cannot_start_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    run = await run_control(ATTACK, scene(tmp_path), identity=None)
    assert not run.has_begun
    assert "unshare" in run.refusal


async def test_listeners_of_a_taken_name_leave_nothing_open(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with Listeners(tmp_path / "one", f"taken-{os.getpid()}"):
        with pytest.raises(OSError, match="in use"):
            async with Listeners(tmp_path / "two", f"taken-{os.getpid()}"):
                raise AssertionError
    with pytest.raises(OSError, match="assign"):
        listeners._bound(socket.AF_INET, "192.0.2.1")


async def test_a_machine_without_ipv6_has_no_such_listener(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = listeners._bound

    def bound(family: int, address: str, *kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError("no such family")
        return real(family, address, *kind)

    monkeypatch.setattr(listeners, "_bound", bound)
    async with Listeners(tmp_path, f"old-{os.getpid()}") as made:
        assert made.ports["tcp6"] == 0
        assert made.ports["tcp"] > 0


async def test_a_listener_answers_whoever_speaks(tmp_path: Path) -> None:
    async with Listeners(tmp_path, f"heard-{os.getpid()}") as made:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.ports["tcp"])
        writer.write(b"a token")
        writer.write_eof()
        assert await reader.read() == b"heard"
        await listeners.closed(writer)
        assert made.heard.has("a token")
        assert not made.heard.has("another")


async def test_a_victim_that_is_gone_has_no_limits(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary-1")
    given = {**scene(tmp_path).given, "secret": f"{tmp_path}/secret", "folder": str(tmp_path)}
    victim = await start_victim(given, canary="canary-1", identity=None)
    states = [victim.is_alive]
    await victim.end()
    assert [*states, victim.is_alive, victim.is_limited] == [True, False, False]
    await victim.end()


async def test_a_victim_that_was_killed_a_moment_ago_does_not_live(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary-1")
    given = {**scene(tmp_path).given, "secret": f"{tmp_path}/secret", "folder": str(tmp_path)}
    victim = await start_victim(given, canary="canary-1", identity=None)
    os.kill(victim.process.pid, signal.SIGKILL)
    assert not victim.is_alive  # the loop has not heard of its end
    await victim.end()


async def test_what_a_killed_victim_shared_goes_with_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("canary-1")
    given = {**scene(tmp_path).given, "secret": f"{tmp_path}/secret", "folder": str(tmp_path)}
    victim = await start_victim(given, canary="canary-1", identity=None)
    libc, key = ctypes.CDLL(None), int(victim.facts["key"])
    there = [libc.shmget(key, 0, 0) >= 0, libc.msgget(key, 0) >= 0]
    victim.process.kill()
    await victim.end()
    assert there == [True, True]
    assert [libc.shmget(key, 0, 0), libc.msgget(key, 0)] == [-1, -1]


async def test_a_file_that_is_not_there_has_no_handle() -> None:
    assert bait._handle(Path("/no/such/file")) == {"kind": 0, "content": ""}


async def test_a_tree_that_was_never_carried_shows_nothing(tmp_path: Path) -> None:
    run = Run(scene=scene(tmp_path), text="")
    assert [found(run) for found in (borrowed, followed, setuid_carried, unnoticed)] == [""] * 4
