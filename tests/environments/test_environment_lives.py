"""Environments and the lives of the engines that start them; engines of other users too."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import patchyard
from endings import LONGEST_S
from environments.yards import KINDS, LOCAL, Yard, living, marks_of
from patchyard.clients.docker import connected, engine_socket
from patchyard.domain.codec import from_json
from patchyard.domain.environment import EnvironmentHandle, ExecutionEnvironment
from patchyard.environments.keeping import EnvironmentKeeper
from toolboxes import comes_true

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

STARTER = """
import asyncio, json, os, signal, sys
from dataclasses import replace
from pathlib import Path
from patchyard.clients.berths import Station
from patchyard.clients.clock import SystemClock
from patchyard.domain.codec import to_json
from patchyard.domain.environment import EnvironmentSpec, Mount
from patchyard.registry import ENVIRONMENTS, load

(kind, _, image), folder = sys.argv[1].partition("="), Path(sys.argv[2])
kind, _, more = kind.partition("-")
station = Station(
    runtime=folder / "runtime", new_id=SystemClock().new_id, search_path=os.environ["PATH"],
    home=os.environ["HOME"], shelf=Path(sys.argv[3]), public=Path(sys.argv[3]),
)
adapter = load(ENVIRONMENTS[kind])(station)
workspace = Mount(source=f"{folder}/workspace", target=f"{folder}/workspace", is_writable=True)
spec = EnvironmentSpec(
    plan_id="01P", purpose="check", image=image, workspace=workspace,
    address="yonder" if kind == "ssh" else "", runtime=more if kind == "container" else "",
)
"""

DIES = """
async def main():
    handle = await adapter.start(spec)
    toolbox = await adapter.attach(handle)
    started = asyncio.Event()
    waits = "echo begun; until [ -s gate ]; do sleep 0.01; done; echo got $(cat gate)"
    command = {"command": waits}
    call = asyncio.create_task(toolbox.call(
        "01CALL", "execute_command", command, on_output=lambda *_: started.set()
    ))
    await started.wait()
    print(json.dumps(to_json(handle)), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""

DIES_STARTING = """
async def main():
    task = asyncio.create_task(adapter.start(replace(spec, orphan_grace_s=0.3)))
    for _ in range(int(sys.argv[4])):
        await asyncio.sleep(0)
    os.closerange(3, 1000)  # what a death does last: now nobody reads bubblewrap's report
    print("dies", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""

DIES_GROUPING = """
from patchyard.clients import cgroups
made = cgroups.make_group

def dies(*words, **more):
    print(json.dumps(made(*words, **more)), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

cgroups.make_group = dies
asyncio.run(adapter.start(spec))
"""

TRIES = """
async def main():
    found = {"check": (await adapter.check()).cause}
    handle = await adapter.start(spec)
    toolbox = await adapter.attach(handle)
    async def run(command):
        args = {"command": command}
        result = await toolbox.call(f"01CALL{len(found)}", "execute_command", args)
        return (result["stdout"] + result["stderr"]).strip()
    found["uid"] = await run("id -u; touch mine")
    found["userns"] = await run("unshare --user true")
    found["etc"] = await run("cat /etc/shadow")
    found["home"] = await run("stat -c '%u %a' ~")
    await toolbox.close()
    await adapter.end(handle)
    found["left"] = [path.name for path in station.runtime.glob("0*")]
    print(json.dumps(found))

asyncio.run(main())
"""


async def run_script(code: str, *arguments: str, prefix: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run a script with nothing but the package, without its dependencies, on its path."""
    done = await asyncio.to_thread(
        subprocess.run,
        [*prefix, "-c", STARTER + code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )
    assert done.stdout, done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_survives_the_kill_of_the_engine_that_made_it(kind: str, yard: Yard) -> None:
    adapter = yard.adapter(kind)
    code, said = await run_script(
        DIES,
        f"{kind}={yard.image}",
        str(yard.folder),
        str(yard.station.shelf),
        prefix=(sys.executable,),
    )
    assert code == -signal.SIGKILL
    stored: Any = json.loads(said)
    handle = from_json(EnvironmentHandle, stored)
    try:
        toolbox = await adapter.attach(handle)
        heard: list[str] = []
        is_told = asyncio.Event()

        def on_output(_stream: str, text: str) -> None:
            heard.append(text)
            is_told.set()

        waiting = asyncio.create_task(toolbox.attach("01CALL", on_output=on_output))
        await is_told.wait()  # what it had said before is told again
        gate = yard.inside(handle) / "gate"
        await asyncio.to_thread(gate.write_text, "word\n")
        result = await waiting
        await toolbox.close()
    finally:
        await adapter.end(handle)
    assert result is not None
    assert result["stdout"] == "begun\ngot word\n"
    assert "".join(heard) == "begun\ngot word\n"


def clear(yard: Yard) -> None:
    """Do the janitor's work: no handle names what a killed engine was starting."""
    for left in yard.station.runtime.glob("0*"):
        shutil.rmtree(left)
        for home in Path(tempfile.gettempdir()).glob(f"patchyard-{left.name}-*"):
            shutil.rmtree(home)


@pytest.mark.parametrize("turns", [1, 4, 30])
@pytest.mark.parametrize("kind", LOCAL)
async def test_what_an_engine_was_starting_when_it_was_killed_ends_itself(
    kind: str, turns: int, yard: Yard
) -> None:
    arguments = (kind, str(yard.folder), str(yard.station.shelf), str(turns))
    code, _ = await run_script(DIES_STARTING, *arguments, prefix=(sys.executable,))
    assert code == -signal.SIGKILL
    await comes_true(lambda: not living(yard))  # one that is being started is not seen at first
    clear(yard)


def standing(group: list[str]) -> list[str]:
    return [directory for directory in group if Path(directory).exists()]


@pytest.mark.parametrize("kind", LOCAL)
async def test_a_group_is_returned_that_was_made_right_before_its_engine_was_killed(
    kind: str, yard: Yard
) -> None:
    arguments = (kind, str(yard.folder), str(yard.station.shelf))
    code, said = await run_script(DIES_GROUPING, *arguments, prefix=(sys.executable,))
    assert code == -signal.SIGKILL
    group = json.loads(said)
    assert standing(group) == group
    adapter = yard.adapter(kind)
    keeper = EnvironmentKeeper(yard.station, {ExecutionEnvironment(kind): adapter})
    (left,) = await keeper.found()
    assert await keeper.give_back(left, unused_since=float("inf"))
    assert standing(group) == []


@pytest.mark.service("root")
@pytest.mark.service("user-namespaces")
@pytest.mark.parametrize("kind", LOCAL)
async def test_an_ordinary_user_has_the_same_environments(kind: str, yard: Yard) -> None:
    uid = 60_100
    package = yard.folder / "package"
    shutil.copytree(Path(patchyard.__file__).parent, package / "patchyard")
    place = yard.folder / "theirs"
    for folder in (place, place / "workspace", place / "home"):
        folder.mkdir()
        os.chown(folder, uid, uid)
    prefix = (
        *("setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"),
        *("env", "-i", f"HOME={place}/home", "PATH=/usr/bin:/bin"),
        *(f"PYTHONPATH={package}", "/usr/bin/python3"),
    )
    code, said = await run_script(TRIES, kind, str(place), f"{place}/copies", prefix=prefix)
    found = json.loads(said)
    assert code == 0
    assert (found["check"], found["uid"], found["left"]) == ("", str(uid), [])
    assert (place / "workspace/mine").stat().st_uid == uid
    if kind == "process":
        assert "Operation not permitted" in found["userns"]
        assert "No such file" in found["etc"]
        assert found["home"] == f"{uid} 700"


@pytest.mark.parametrize(
    ("kind", "turns"),
    [
        *(pytest.param("container", n, marks=marks_of("container")) for n in (20, 60, 120, 240)),
        *(pytest.param("container-runsc", n, marks=marks_of("container-runsc")) for n in (90, 900)),
    ],
)
async def test_a_container_that_was_starting_when_its_engine_was_killed_is_returned(
    kind: str, turns: int, yard: Yard
) -> None:
    adapter = yard.adapter(kind)
    arguments = (f"{kind}={yard.image}", str(yard.folder), str(yard.station.shelf), str(turns))
    code, _ = await run_script(DIES_STARTING, *arguments, prefix=(sys.executable,))
    assert code == -signal.SIGKILL
    keeper = EnvironmentKeeper(yard.station, {ExecutionEnvironment.CONTAINER: adapter})
    left = await keeper.found()
    for found in left:
        assert await keeper.give_back(found, unused_since=float("inf"))
    async with connected(engine_socket(os.environ)) as engine:
        assert [await engine.inspect(f"patchyard-{found.name}") for found in left] == [None] * len(
            left
        )
    assert (list(yard.station.runtime.glob("0*")), living(yard)) == ([], [])
