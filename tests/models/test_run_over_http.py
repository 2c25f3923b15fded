"""`agents run` over both wire formats: the same change as played back, and no key anywhere."""

import asyncio
import json
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models.scenes import KEY, SERVERS, Ended, Scene, leaks, set_up
from patchyard.domain.plan import State

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

CHECK = "grep -q hello greet.py"


def tree(ended: Ended) -> str:
    """The tree that a plan came to."""
    assert ended.error is None, ended.words
    assert ended.state.state is State.COMPLETE
    assert ended.state.changeset is not None
    return ended.state.changeset.tree


async def command(scene: Scene, environ: dict[str, str], *words: str) -> tuple[int, Any, bytes]:
    """Call `agents run`; return its exit code, its JSON and all that it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "patchyard", "run", "Mend the greeting", "--in", "process"),
        *("--validate", CHECK, "--format", "json", *words),
        cwd=scene.site.repository,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, json.loads(out), out + err


@pytest.mark.parametrize("is_streaming", [True, False], ids=["streaming", "whole"])
@pytest.mark.parametrize("fmt", SERVERS)
async def test_a_plan_comes_to_the_same_tree_as_its_recording(
    fmt: str, tmp_path: Path, *, is_streaming: bool
) -> None:
    scene = set_up(fmt, tmp_path)
    scene.be_well()
    talk = tmp_path / "talk"
    async with scene.server.running() as url:
        environ = scene.configure(url, is_streaming=is_streaming)
        lived = await scene.carry(environ, record_to=str(talk))
    assert {request["stream"] for request in scene.server.requests} == {is_streaming}
    assert "".join(scene.heard).startswith("I look.")
    played = await scene.carry(environ, model=f"recorded:{talk}")
    assert tree(played) == tree(lived)
    assert stat.S_IMODE(talk.stat().st_mode) == 0o600
    assert leaks(tmp_path) == []


async def test_the_command_line_does_the_same_and_shows_no_key(tmp_path: Path) -> None:
    scene = set_up("chat", tmp_path)
    scene.be_well()
    talk = str(tmp_path / "talk")
    async with scene.server.running() as url:
        environ = scene.configure(url)
        code, lived, shown = await command(
            scene, environ, "--model", "house:tiny", "--record", talk
        )
        assert code == 0, lived
        refused, body, words = await command(
            scene, {**environ, "HOUSE_KEY": f"{KEY}-wrong"}, "--model", "house:tiny"
        )
    assert (refused, body["status"], body["error"]["code"]) == (4, "error", "model_unavailable")
    assert "HOUSE_KEY" in body["error"]["hint"]
    assert body["data"]["state"] == "errored"
    code, played, more = await command(scene, environ, "--model", f"recorded:{talk}")
    assert code == 0, played
    assert played["data"]["changeset"]["tree"] == lived["data"]["changeset"]["tree"]
    assert played["data"]["validation"][0]["passed"]
    assert KEY.encode() not in shown + words + more
    assert leaks(tmp_path) == []


async def test_a_recording_of_a_plan_that_was_resumed_plays_back_in_one_go(tmp_path: Path) -> None:
    scene = set_up("chat", tmp_path)
    scene.be_well()
    scene.server.faults = ["", "", "cut"]
    talk = str(tmp_path / "talk")
    async with scene.server.running() as url:
        environ = scene.configure(url)
        ended = await scene.carry(environ, record_to=talk)
        assert ended.error is not None
        resumed = await scene.carry(environ, ended.plan_id)
    played = await scene.carry(environ, model=f"recorded:{talk}")
    assert tree(played) == tree(resumed)


async def test_a_plan_on_a_recording_goes_on_where_it_stopped(tmp_path: Path) -> None:
    scene = set_up("chat", tmp_path)
    scene.be_well()
    talk = str(tmp_path / "talk")
    async with scene.server.running() as url:
        environ = scene.configure(url)
        lived = await scene.carry(environ, record_to=talk)
    stopped = await scene.carry(environ, model=f"recorded:{talk}", steps=3)
    assert stopped.error is not None
    assert (stopped.error.exit_code, stopped.state.turn) == (5, 2)
    played = await scene.carry(environ, model=f"recorded:{talk}")
    assert tree(played) == tree(lived)


async def test_a_recording_of_another_task_is_refused_with_the_difference(tmp_path: Path) -> None:
    scene = set_up("chat", tmp_path)
    scene.be_well()
    talk = str(tmp_path / "talk")
    async with scene.server.running() as url:
        environ = scene.configure(url)
        await scene.carry(environ, record_to=talk)
    other = await scene.carry(environ, model=f"recorded:{talk}", task="Mend the farewell")
    assert other.error is not None
    assert other.error.code == "model_failed"
    assert "request 1 differs" in other.error.message
    assert "farewell" in other.error.message
    assert "the same task" in other.error.hint
    assert other.state.state is State.ERRORED


async def test_an_existing_file_is_no_place_for_a_recording(tmp_path: Path) -> None:
    scene = set_up("chat", tmp_path)
    talk = tmp_path / "talk"
    talk.write_text("mine")
    ended = await scene.carry(scene.configure("http://127.0.0.1:9"), record_to=str(talk))
    assert ended.error is not None
    assert (ended.error.exit_code, ended.error.hint[:17]) == (2, "name another file")
    assert talk.read_text() == "mine"


@pytest.fixture
def passable() -> Iterator[Path]:
    """A folder that a root engine's agent may pass through, as an unconfined one has to."""
    folder = Path(tempfile.mkdtemp(prefix="patchyard-scene-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


async def test_a_recording_is_played_back_behind_walls_at_least_as_strong(passable: Path) -> None:
    scene = set_up("chat", passable)
    scene.be_well()
    walled, bare = str(passable / "walled"), str(passable / "bare")
    async with scene.server.running() as url:
        environ = scene.configure(url)
        await scene.carry(environ, record_to=walled)
        unconfined = await scene.carry(environ, record_to=bare, kind="host")
    tree(unconfined)
    weaker = await scene.carry(environ, model=f"recorded:{walled}", kind="host")
    assert weaker.error is not None
    assert weaker.error.exit_code == 2
    assert "was recorded in process, and host is weaker" in weaker.error.message
    assert "--in process" in weaker.error.hint
    stronger = await scene.carry(environ, model=f"recorded:{bare}")
    assert tree(stronger) == tree(unconfined)
