"""The limits `network` and `connections`: refused or cut at the bound, told, and counted on."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite, call
from network.conftest import Authority
from network.doors import Door, door
from network.hosts import Host
from patchyard.clients import gateway_server
from patchyard.domain.carrying import NetworkBounds
from patchyard.domain.events import Event, ToolCallSettled
from patchyard.domain.limit_hits import Hit
from patchyard.domain.network import NetworkGrant
from patchyard.engine.reaching import Reaching
from patchyard.engine.report import plan_data

pytestmark = pytest.mark.anyio

KIB = 1024


def grant_of(host: Host, **more: Any) -> NetworkGrant:
    return NetworkGrant(hosts=(f"http://{host.place}",), **more)


async def status_of(inside: Door, host: Host, path: str = "/x") -> int:
    said = await inside.ask(f"http://{host.place}{path}")
    return int(said.split(b" ")[1])


async def test_a_connection_too_many_is_turned_away_and_told_the_limit(
    tmp_path: Path, plain: Host
) -> None:
    plain.say("/x", b"fine")
    bounds = NetworkBounds(connections=2)
    async with door(grant_of(plain), tmp_path, bounds=bounds) as inside:
        held = [await asyncio.open_connection("127.0.0.1", inside.port) for _ in range(2)]
        said = await inside.ask(f"http://{plain.place}/x")
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"the limit `connections` was reached: 2 of 2; open fewer at once" in said
        carried = inside.counting.read()
        assert (carried.connections, carried.network_bytes) == (2, 0)
        assert carried.hit == Hit(limit="connections", used=2, allowed=2, seen_by="gateway")
        (attempt,) = inside.attempts()
        assert (attempt.verdict, attempt.status) == ("refused", 503)
        held.pop()[1].close()
        async with asyncio.timeout(120):
            while await status_of(inside, plain) == 503:
                pass
        assert inside.counting.read().connections == 2
        held.pop()[1].close()
    assert len(plain.seen) == 1


async def test_who_is_turned_away_and_never_asks_holds_nobody_up(
    tmp_path: Path, plain: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_server, "AWAY_TIMEOUT_S", 0.05)
    async with door(grant_of(plain), tmp_path, bounds=NetworkBounds(connections=1)) as inside:
        _, held = await asyncio.open_connection("127.0.0.1", inside.port)
        reader, mute = await asyncio.open_connection("127.0.0.1", inside.port)
        async with asyncio.timeout(120):
            assert b" 503 " in await reader.readline()
        for writer in (held, mute):
            writer.close()


@pytest.mark.parametrize("up", [True, False])
async def test_a_transfer_is_cut_at_the_bound_and_the_next_is_refused(
    tmp_path: Path, plain: Host, *, up: bool
) -> None:
    big = b"x" * 512 * KIB
    plain.say("/x", b"fine" if up else big)
    bounds = NetworkBounds(network_bytes=100 * KIB)
    async with door(grant_of(plain), tmp_path, bounds=bounds) as inside:
        said = await inside.ask(f"http://{plain.place}/x", method="POST", body=big if up else b"")
        assert len(said) <= 100 * KIB
        assert sum(len(seen.body) for seen in plain.seen) <= 100 * KIB
        carried = inside.counting.read()
        assert carried.hit is not None
        assert (carried.hit.limit, carried.hit.allowed) == ("network", 100 * KIB)
        assert 100 * KIB < carried.network_bytes < 512 * KIB
        assert carried.hit.used == carried.network_bytes
        again = await inside.ask(f"http://{plain.place}/x")
        assert re.search(
            rb"^HTTP/1.1 403 the limit `network` was reached: \S+ KiB of 100 KiB", again
        )
        assert inside.counting.read().network_bytes == 0


async def test_a_tunnel_is_cut_at_the_bound_both_ways_together(
    tmp_path: Path, secure: Host, authority: Authority
) -> None:
    secure.say("/x", b"y" * 512 * KIB)
    bounds = NetworkBounds(network_bytes=200 * KIB)
    grant = NetworkGrant(hosts=(secure.place,))
    async with door(grant, tmp_path, bounds=bounds) as inside:
        tunnel = await inside.tunnel(secure.place, authority.client)
        try:
            said = await tunnel.get("/x")
        except OSError:
            said = b""
        tunnel.close()
        (attempt,) = await inside.told(1)
        hit = inside.counting.read().hit
    assert len(said) < 200 * KIB < attempt.up + attempt.down
    assert attempt.verdict == "refused"
    assert hit is not None
    assert hit.limit == "network"


async def test_what_goes_out_in_heads_counts_too(tmp_path: Path, plain: Host) -> None:
    plain.say("/x", b"fine")
    bounds = NetworkBounds(network_bytes=64 * KIB)
    path = f"/x?{'q' * 20 * KIB}"
    async with door(grant_of(plain), tmp_path, bounds=bounds) as inside:
        said = [await status_of(inside, plain, path) for _ in range(5)]
    assert said == [404, 404, 404, 403, 403]
    assert len(plain.seen) == 3


async def test_what_was_carried_before_counts_on(tmp_path: Path, plain: Host) -> None:
    plain.say("/x", b"z" * 60 * KIB)
    bounds = NetworkBounds(network_bytes=100 * KIB, used_bytes=50 * KIB)
    async with door(grant_of(plain), tmp_path, bounds=bounds) as inside:
        said = await inside.ask(f"http://{plain.place}/x")
        assert inside.counting.read().network_bytes > 50 * KIB
    assert len(said) < 60 * KIB


async def test_the_limits_of_a_grant_are_told_as_hits(tmp_path: Path, plain: Host) -> None:
    plain.say("/x", b"z" * 60 * KIB)
    async with door(grant_of(plain, max_call_bytes=10 * KIB), tmp_path) as inside:
        await inside.ask(f"http://{plain.place}/x")
        hit = inside.counting.read().hit
        assert hit is not None
        assert (hit.limit, hit.allowed) == ("network.max_call_bytes", 10 * KIB)
        again = await inside.ask(f"http://{plain.place}/x")
    assert b"the limit `network.max_call_bytes` was reached" in again


GET = """
import os, sys, urllib.request
try:
    print(len(urllib.request.urlopen(sys.argv[1], timeout=120).read()))
except Exception as error:
    print("failed:", error)
"""


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Worksite]:
    made = Worksite.make(tmp_path, {"get.py": GET})
    yield made
    await made.clear()


class Killed(BaseException):
    """The engine died here."""


def settled(heard: list[Event]) -> list[ToolCallSettled]:
    return [event for event in heard if isinstance(event, ToolCallSettled)]


@pytest.mark.service("bubblewrap")
async def test_a_call_says_which_limit_was_hit_and_the_next_engine_counts_on(
    site: Worksite, plain: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.say("/x", b"z" * 60 * KIB)
    fetch = call("execute_command", command=f"python3 get.py http://{plain.place}/x")
    real, calls = Reaching.furnished, iter(range(9))

    async def dies(self: Reaching, *arguments: Any) -> Any:
        if next(calls) == 1:
            raise Killed
        return await real(self, *arguments)

    async with site.open() as (_, workflow):
        asked = site.asked(
            fetch,
            fetch,
            fetch,
            call("execute_command", command="echo well"),
            allow_hosts=(f"http://{plain.place}",),
            limits=("network=100K", "connections=3"),
        )
        plan_id = await site.made(workflow, asked)
        with monkeypatch.context() as patched:
            patched.setattr(Reaching, "furnished", dies)
            with pytest.raises(Killed):
                await workflow.run(plan_id)
    async with site.open() as (equipment, workflow):
        await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    first, lost, third, last = settled(site.heard)
    assert first.usage is not None
    assert first.usage.network_bytes is not None
    assert 60 * KIB < first.usage.network_bytes < 62 * KIB
    assert first.usage.connections == 1
    assert "limit" not in first.data.value
    assert lost.error == "OUTCOME_UNKNOWN"
    assert third.data.value["limit"] == "network"
    assert third.data.value["limit_seen_by"] == "gateway"
    assert third.data.value["allowed"] == 100 * KIB < third.data.value["used"]
    assert "the limit `network` was reached: 1" in third.message
    assert third.usage is not None
    assert last.usage is not None
    assert (last.usage.network_bytes, last.usage.connections) == (0, 0)
    used = data["execution"]["usage"]
    assert used["network_bytes"] == first.usage.network_bytes + (third.usage.network_bytes or 0)
    assert used["connections"] == 1
