"""Processes of places that a host over SSH carries: counted for each alone, or said of whom."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from environments.limited import limited
from environments.yards import Yard, marks_of
from patchyard.clients.ssh_talk import Conversation
from patchyard.domain.environment import Limits
from patchyard.toolbox import grouping

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap"), pytest.mark.service("sshd")]

PROCESS = [pytest.param("ssh-process", marks=marks_of("ssh-process"))]


@pytest.mark.service("control-groups")
@pytest.mark.parametrize("kind", PROCESS)
async def test_processes_are_counted_for_each_place_alone(kind: str, yard: Yard) -> None:
    adapter, limits = yard.adapter(kind), Limits(processes=24)
    many = "for i in $(seq 16); do sleep 5 & done; echo all; kill $(jobs -p)"
    more = {"command": "for i in $(seq 60); do sleep 5 & done; kill $(jobs -p)"}
    async with (
        limited(adapter, yard.spec(limits=limits)) as (handle, toolbox),
        limited(adapter, yard.spec(limits=limits)) as (_, other),
    ):
        left = {"command": "for i in $(seq 16); do sleep 60 & done; wait", "background": True}
        await other.call("job", "execute_command", left)
        said = await toolbox.call("c", "execute_command", {"command": many})
        told = await toolbox.call("d", "execute_command", more)
        note = yard.inside(handle).parent / "run" / grouping.NOTE
        group = Path(await asyncio.to_thread(note.read_text))
        assert await asyncio.to_thread(group.is_dir)
    assert (said["stdout"], said.get("limit")) == ("all\n", None)
    assert (told["limit"], told["used"], told["allowed"]) == ("processes", 24, 24)
    assert handle.details["counted"] == {}
    assert not await asyncio.to_thread(group.exists)


@pytest.mark.parametrize("kind", PROCESS)
async def test_where_no_group_counts_it_is_said_what_is(
    kind: str, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Conversation.ask

    async def without(self: Conversation, do: str, **fields: object) -> Mapping[str, object]:
        return {**await real(self, do, **fields), "has_groups": False}

    adapter = yard.adapter(kind)
    monkeypatch.setattr(Conversation, "ask", without)
    handle = await adapter.start(yard.spec())
    has_note = await asyncio.to_thread((yard.inside(handle).parent / "run" / grouping.NOTE).exists)
    await adapter.end(handle)
    counted = handle.details["counted"]["processes"]
    assert (counted.startswith("of all that runs on "), has_note) == (True, False)
