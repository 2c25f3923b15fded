"""A toolbox over a replica, and one over connections that break, around their calls."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients import reattaching, replicas
from patchyard.clients.path_mapping import PathMapping
from patchyard.clients.reattaching import Gone, ReattachingToolbox
from patchyard.clients.replicas import Replica
from patchyard.clients.replicated import ReplicatedToolbox
from patchyard.clients.toolbox import ToolboxClient
from patchyard.contracts.environment import OnOutput
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable
from patchyard.toolbox import trees
from replicas import HERE, InProcess, Listened, Pair, at_home, kept, paired, replicated
from toolboxes import comes_true

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with paired(tmp_path) as made:
        yield made


async def test_an_earlier_call_has_its_files_at_home_when_it_is_attached_to(pair: Pair) -> None:
    async with replicated(pair) as first:
        task = asyncio.create_task(
            first.call(
                "1", "execute_command", {"command": "mkfifo gate; read x < gate; echo $x > a"}
            )
        )
        await comes_true((pair.far / "gate").exists)
        task.cancel()
        await asyncio.wait([task])
        async with replicated(pair) as second:
            attaching = asyncio.create_task(second.attach("1"))
            await asyncio.to_thread((pair.far / "gate").write_text, "word\n")
            result = await attaching
            assert result is not None
            assert result["success"] is True
            assert (pair.home / "a").read_text() == "word\n"
            assert await second.attach("never") is None


async def test_a_call_that_changed_nothing_asks_for_no_look(pair: Pair) -> None:
    async with replicated(pair) as toolbox:
        pair.listened.asked.clear()
        result = await toolbox.call("1", "execute_command", {"command": "true"})
        assert [op for op, _ in pair.listened.asked] == ["execute_command"]
        assert "replica" not in result
        result = await toolbox.call("2", "execute_command", {"command": "echo x > a"})
        assert (pair.home / "a").read_text() == "x\n"
        assert "replica" not in result
        await toolbox.call("3", "execute_command", {"command": "sleep 300", "background": True})
        pair.listened.asked.clear()
        await toolbox.call("4", "read_file", {"path": "a"})
        assert "replica_look" in [op for op, _ in pair.listened.asked]  # it may change at any time
        await toolbox.call("5", "job_kill", {"job_id": "3"})


async def test_a_call_ends_with_its_files_at_home_where_another_exchange_went_on_beside_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicated(pair) as toolbox:
        real, is_over = pair.listened.call, asyncio.Event()

        async def slow(
            call_id: str, op: str, args: Mapping[str, Any], **more: Any
        ) -> Mapping[str, Any]:
            if op == "replica_settle" and not is_over.is_set():
                await asyncio.to_thread((pair.far / "gate").write_text, "go\n")
                await is_over.wait()  # its own look is over before what came home is agreed
            told = await real(call_id, op, args, **more)
            if call_id == "1":
                is_over.set()
            return told

        monkeypatch.setattr(pair.listened, "call", slow)
        command = {"command": "echo x > passing; mkfifo gate; read x < gate; rm passing gate"}
        running = asyncio.create_task(toolbox.call("1", "execute_command", command))
        await comes_true((pair.far / "gate").exists)
        sweeping = asyncio.create_task(toolbox.call("2", "sweep", {"jobs": False}))
        await running
        assert list(pair.home.iterdir()) == []
        await sweeping


async def test_an_engine_that_wakes_after_another_went_on_brings_nothing_old(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, sleeps, wakes = pair.listened.call, asyncio.Event(), asyncio.Event()

    async def slept(
        call_id: str, op: str, args: Mapping[str, Any], **more: Any
    ) -> Mapping[str, Any]:
        told = await real(call_id, op, args, **more)
        if op == "replica_get" and not sleeps.is_set():
            sleeps.set()
            await wakes.wait()
        return told

    monkeypatch.setattr(pair.listened, "call", slept)
    async with replicated(pair) as first:
        old = asyncio.create_task(first.call("1", "execute_command", {"command": "echo one > a"}))
        await sleeps.wait()
        async with replicated(pair) as second:
            await second.call("2", "execute_command", {"command": "echo two > a"})
            wakes.set()
            with pytest.raises(EnvironmentBroken, match="another engine keeps the files"):
                await old
            assert (pair.home / "a").read_text() == "two\n"
            with pytest.raises(EnvironmentBroken, match="another engine keeps the files"):
                await first.call("3", "read_file", {"path": "a"})
            await second.call("4", "execute_command", {"command": "true"})
            assert (pair.far / "a").read_text() == "two\n"


@pytest.mark.parametrize("claim", [None, "same", {"is_same": 1}, {"is_same": False}, {}])
async def test_only_a_plain_word_spares_the_look(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, claim: object
) -> None:
    async with replicated(pair) as toolbox:
        real = pair.listened.call

        async def claiming(
            call_id: str, op: str, args: Mapping[str, Any], **more: Any
        ) -> Mapping[str, Any]:
            told = await real(call_id, op, args, **more)
            return {**told, "replica": claim} if op == "execute_command" else told

        monkeypatch.setattr(pair.listened, "call", claiming)
        result = await toolbox.call("1", "execute_command", {"command": "echo x > a"})
        assert (pair.home / "a").read_text() == "x\n"
        assert "replica" not in result


async def test_what_does_not_travel_is_said_in_the_result(pair: Pair) -> None:
    async with replicated(pair) as toolbox:
        result = await toolbox.call("1", "execute_command", {"command": "mkfifo pipe; echo a > a"})
    assert result["left_out"] == ["pipe (a FIFO)"]
    assert result["message"].endswith("; not taken along: pipe (a FIFO)")
    assert (pair.home / "a").read_text() == "a\n"
    assert not (pair.home / "pipe").exists()


async def test_a_tree_that_only_reads_never_comes_home(pair: Pair) -> None:
    (pair.home / "a").write_text("as it was\n")
    async with replicated(pair, takes_home=False) as toolbox:
        await toolbox.call("1", "execute_command", {"command": "echo x > a; echo x > b"})
        async with toolbox.still() as is_still:
            assert is_still
    assert [each.name for each in pair.home.iterdir()] == ["a"]
    assert (pair.home / "a").read_text() == "as it was\n"


async def test_a_replica_that_cannot_be_held_still_says_so(pair: Pair) -> None:
    async with replicated(pair) as toolbox:
        await toolbox.call("1", "execute_command", {"command": "sleep 300", "background": True})
        async with toolbox.still() as is_still:
            assert is_still
        await pair.server.client.close()
        async with toolbox.still() as is_still:
            assert not is_still
    await pair_again(pair)


async def pair_again(pair: Pair) -> None:
    pair.server.client = await ToolboxClient.connect(pair.server.path)
    await pair.server.client.call("k", "job_kill", {"job_id": "1"})


async def test_a_toolbox_that_answers_no_exchange_is_broken_in_time(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "OP_TIMEOUT_S", 0.05)

    async def never(*_: Any, **__: Any) -> Mapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    toolbox = ReplicatedToolbox(pair.listened, pair.replica(), takes_home=True)
    monkeypatch.setattr(pair.listened, "call", never)
    with pytest.raises(EnvironmentBroken, match="did not answer within"):
        await toolbox.recover()
    await toolbox.close()


async def test_an_exchange_that_is_refused_is_broken_with_the_reason(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: Any, **__: Any) -> Mapping[str, Any]:
        return {"success": False, "message": "No space left on device", "error": "NO_SPACE"}

    toolbox = ReplicatedToolbox(pair.listened, pair.replica(), takes_home=False)
    monkeypatch.setattr(pair.listened, "call", refused)
    with pytest.raises(EnvironmentBroken, match="No space left") as broken:
        await toolbox.recover()
    assert "that host's disk" in broken.value.hint
    await toolbox.close()


async def test_what_stays_there_is_known_until_it_is_gone(pair: Pair) -> None:
    make = "mkfifo pipe; echo x >tool; chmod 4755 tool; echo y >noted"
    attribute = 'python3 -c \'import os; os.setxattr("noted", "user.mark", b"1")\''
    async with replicated(pair) as toolbox:
        made = await toolbox.call("1", "execute_command", {"command": f"{make}; {attribute}"})
        assert made["success"], made
        wanted = [("pipe", "a FIFO"), ("tool", "its setuid bit")]
        assert sorted(toolbox.left_out) == [("noted", "its attributes user.mark"), *wanted]
        await toolbox.call("2", "execute_command", {"command": "true"})
        assert sorted(toolbox.left_out) == [("noted", "its attributes user.mark"), *wanted]
        clear = {"command": "rm pipe noted; chmod 755 tool"}
        await toolbox.call("3", "execute_command", clear)
        assert list(toolbox.left_out) == []
    assert list(toolbox.left_out) == []


async def test_a_file_that_changes_while_it_is_sent_is_sent_by_the_next_exchange(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pair.home / "a").write_text("one\n")
    (pair.home / "b").write_text("two\n")
    replica = pair.replica()
    real = replica._home.read

    def changing(path: str, offset: int, length: int) -> bytes | int:
        if path == "a":
            raise FileNotFoundError
        return b"odd\n" if path == "b" else real(path, offset, length)

    monkeypatch.setattr(replica._home, "read", changing)
    await replica.recover(takes_home=True)
    assert list(pair.far.iterdir()) == []
    monkeypatch.setattr(replica._home, "read", real)
    await replica.bring_in()
    await replica.close()
    assert sorted(each.name for each in pair.far.iterdir()) == ["a", "b"]


async def test_a_mode_alone_travels_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "TICK_NS", -(10**12))  # as if all had been done long ago
    home, far = tmp_path / "home", tmp_path / "far"
    home.mkdir()
    far.mkdir()
    (home / "a").write_text("one\n")
    listened = Listened(InProcess(far))
    mapping = PathMapping(here=HERE, there=str(far))
    replica = Replica(listened, at_home(home), mapping, tenure=kept(home))
    await replica.recover(takes_home=True)
    assert listened.files_put() == ["a"]
    (home / "a").chmod(0o700)
    await replica.bring_in()
    assert listened.files_put() == []
    assert (far / "a").stat().st_mode & 0o777 == 0o700
    (far / "a").chmod(0o600)
    await replica.bring_home()
    await replica.close()
    await listened.toolbox.close()
    assert listened.files_fetched() == []
    assert (home / "a").stat().st_mode & 0o777 == 0o600


class Lines:
    """Connections to one toolbox, each made by `dial`; some do not come about."""

    def __init__(self, path: Path, *failures: Exception) -> None:
        self.path = path
        self.failures = list(failures)
        self.made: list[ToolboxClient] = []
        self.hung_up = 0

    async def dial(self) -> ToolboxClient:
        if self.failures:
            raise self.failures.pop(0)
        self.made.append(await ToolboxClient.connect(self.path))
        return self.made[-1]

    async def hang_up(self) -> None:
        self.hung_up += 1

    async def toolbox(self) -> ReattachingToolbox:
        return ReattachingToolbox(await self.dial(), self.dial, self.hang_up)


async def test_a_broken_connection_is_made_again_for_every_request(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reattaching, "PAUSE_S", 0.001)
    lines = Lines(pair.server.path)
    toolbox = await lines.toolbox()
    seen: list[str] = []

    def hear(_stream: str, text: str) -> None:
        seen.append(text)

    command = {"command": "echo one; mkfifo gate; read x < gate; echo $x"}
    call = asyncio.create_task(toolbox.call("1", "execute_command", command, on_output=hear))
    await comes_true((pair.far / "gate").exists)
    lines.failures = [EnvironmentUnavailable("away"), EnvironmentBroken("still away")]
    await lines.made[0].close()
    await comes_true(lambda: len(lines.made) == 2)
    await asyncio.to_thread((pair.far / "gate").write_text, "word\n")
    assert (await call)["stdout"] == "one\nword\n"
    assert "one\nword\n".startswith("".join(seen))
    await lines.made[-1].close()
    assert (await toolbox.attach("1") or {})["stdout"] == "one\nword\n"
    await lines.made[-1].close()
    await toolbox.forget(("1",))
    await lines.made[-1].close()
    await toolbox.cancel("1")
    await toolbox.close()
    assert lines.hung_up == 1
    with pytest.raises(EnvironmentBroken):
        await toolbox.attach("1")


async def test_a_toolbox_that_is_gone_is_not_waited_for(pair: Pair) -> None:
    lines = Lines(pair.server.path)
    toolbox = await lines.toolbox()
    lines.failures = [Gone("it is not there")]
    await lines.made[0].close()
    with pytest.raises(Gone):
        await toolbox.attach("1")
    await toolbox.close()


async def test_a_connection_that_always_breaks_is_given_up(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reattaching, "AGAIN_S", 0.0)
    lines = Lines(pair.server.path)
    toolbox = await lines.toolbox()

    async def broken(*_: Any, on_output: OnOutput | None = None) -> Mapping[str, Any]:
        assert on_output is None
        raise EnvironmentBroken("nonsense")

    monkeypatch.setattr(ToolboxClient, "call", broken)
    with pytest.raises(EnvironmentBroken, match="nonsense"):
        await toolbox.call("1", "read_file", {})
    assert len(lines.made) == reattaching.TIMES
    lines.failures = [EnvironmentBroken("away")]
    with pytest.raises(EnvironmentBroken, match="nonsense; nor does it come back: away"):
        await toolbox.call("1", "read_file", {})
    await toolbox.close()
    for each in lines.made:
        await each.close()


async def test_after_a_call_the_records_of_a_large_tree_rest(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "MANY", 0)
    home = at_home(pair.home)
    replica = Replica(pair.listened, home, pair.mapping, tenure=kept(pair.home))
    toolbox = ReplicatedToolbox(pair.listened, replica, takes_home=True)
    try:
        await toolbox.recover()
        for number in range(3):
            command = {"command": f"echo {number} > a; echo x > b{number}"}
            await toolbox.call(str(number), "execute_command", command)
            assert not home.is_large  # packed
        assert (pair.home / "a").read_text() == "2\n"
        assert set(home.agreed) == {"a", "b0", "b1", "b2"}
        assert home.is_large
    finally:
        await toolbox.close()
