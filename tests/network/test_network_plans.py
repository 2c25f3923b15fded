"""Plans that were granted hosts, end to end: what they reach, what is told, what they never see."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import ADD, Worksite, call, done
from network.conftest import Authority
from network.hosts import Host
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Site
from patchyard.domain.errors import ApprovalNeeded, UsageError
from patchyard.domain.events import Event, Noted, ToolCallSettled
from patchyard.domain.plan import Phase
from patchyard.domain.traffic import NetworkUsed
from patchyard.engine.places import Places
from patchyard.engine.reaching import Reaching, reaching
from patchyard.engine.replaying import replay
from patchyard.engine.report import plan_data
from patchyard.intake import spec_of

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

SECRET = "s3cret-of-the-tests-0123456789"
GET = """
import sys, urllib.request, urllib.error, ssl
try:
    context = ssl.create_default_context(cafile="ca.pem")
    with urllib.request.urlopen(sys.argv[1], timeout=120, context=context) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
except OSError as error:
    print("failed:", error)
"""
SEEK = """
import os, pathlib, sys
wanted = sys.argv[1][::-1].encode()
places = [p for p in pathlib.Path("/proc").glob("[0-9]*/*") if p.name in {"environ", "cmdline"}]
for top in ("/tmp", "/home", "/run", "/var", "/etc", "."):
    for folder, _, names in os.walk(top):
        places += [pathlib.Path(folder, name) for name in names]
read = 0
for place in places:
    try:
        found = wanted in place.read_bytes()
        read += 1
    except OSError:
        continue
    if found:
        print("found in", place)
print("read many" if read > 10 else "read few")
"""


def get(url: str) -> dict[str, Any]:
    return call("execute_command", command=f"python3 get.py {url}", timeout_s=120)


@pytest.fixture
async def site(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Worksite]:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    files = {"get.py": GET, "seek.py": SEEK, "ca.pem": authority.file.read_text()}
    made = Worksite.make(tmp_path, files)
    yield made
    await made.clear()


async def ran(site: Worksite, *execute: Any, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Run a plan; return its data, and what its commands printed."""
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(*execute, **options))
        await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    return data, printed(site.heard)


def printed(heard: list[Event]) -> list[str]:
    settled = [event for event in heard if isinstance(event, ToolCallSettled)]
    return [str((each.data.value or {}).get("stdout", "")).strip() for each in settled]


async def test_an_allowed_host_is_reached_by_tls_another_is_not_and_both_are_told(
    site: Worksite, secure: Host
) -> None:
    secure.say("/data", b"from the host")
    write = call("execute_command", command=f"python3 get.py https://{secure.place}/data > new.txt")
    data, said = await ran(
        site,
        get(f"https://{secure.place}/data"),
        get("https://other.invalid/data"),
        write,
        allow_hosts=(secure.place,),
    )
    assert said[0] == "200 from the host"
    assert "403" in said[1]
    assert [file["path"] for file in data["changeset"]["files"]] == ["new.txt"]
    network = data["reach"]["network"]
    assert network["summary"] == f"{secure.place} (can upload)"
    assert (network["attempts"], network["refused"]) == (3, 1)
    places = {each["place"]: each for each in network["places"]}
    assert places[secure.place]["down"] > len("from the host")
    assert places["other.invalid:443"]["refused"] == 1
    used = [event for event in site.heard if isinstance(event, NetworkUsed)]
    calls = [event.call_id for event in site.heard if isinstance(event, ToolCallSettled)]
    told = {
        (attempt["gateway"], attempt["verdict"], attempt["host"], each.call_id)
        for each in used
        for attempt in each.attempts.value
    }
    assert ("connect", "refused", "other.invalid", calls[1]) in told
    assert {row[:3] for row in told} == {
        ("connect", "refused", "other.invalid"),
        ("connect", "passed", "localhost"),
    }


async def test_a_secret_is_used_by_a_command_and_can_be_read_nowhere(
    site: Worksite, secure: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOUSE_TOKEN", SECRET)
    backwards = SECRET[::-1]
    data, said = await ran(
        site,
        get(f"http://{secure.place}/echo"),
        call("execute_command", command=f"env; python3 seek.py {backwards}", timeout_s=240),
        call("execute_command", command="env > environment.txt; cat get.py > copy.txt"),
        secrets=(f"HOUSE_TOKEN@{secure.place}",),
    )
    assert secure.seen[0].headers["authorization"] == f"Bearer {SECRET}"
    assert said[0].startswith("200 ")
    assert "Bearer ****" in said[0]
    assert said[1].endswith("read many")
    assert "found in" not in said[1]
    assert data["reach"]["secrets"] == [f"HOUSE_TOKEN@{secure.place}"]
    assert data["reach"]["network"]["hosts"] == [{"host": secure.place, "can_upload": True}]
    assert SECRET not in repr(data)
    assert SECRET not in repr(site.heard)
    held = [place for place in site.folder.rglob("*") if place.is_file()]
    assert len(held) > 20
    assert [place for place in held if SECRET.encode() in content(place)] == []


def content(place: Path) -> bytes:
    """What a file holds; nothing once it is gone, as a database's log is after its last reader."""
    try:
        return place.read_bytes()
    except FileNotFoundError:
        return b""


async def test_planning_and_proof_reach_nothing_unless_planning_was_said(
    site: Worksite, secure: Host
) -> None:
    url = f"https://{secure.place}/x"
    secure.say("/x", b"from the host")
    gate = f"python3 get.py {url} | grep -q failed"
    options = {"allow_hosts": (secure.place,), "validate": (gate,)}
    _, said = await ran(site, ADD, strategize=(get(url), done("thought")), **options)
    assert "refused" in said[0]
    assert secure.seen == []
    monkeypatched = {"PATCHYARD_NETWORK": "{planning: true}"}
    async with site.open() as (_, workflow):
        asked = site.asked(ADD, strategize=(get(url), done("thought")), **options)
        spec = spec_of(asked, {**site.environ, **monkeypatched})
        assert spec.network.planning
        await workflow.run(await workflow.create(spec))
    assert "200 from the host" in printed(site.heard)
    assert len(secure.seen) == 1


async def test_a_plan_without_a_grant_has_no_variable_and_no_port(site: Worksite) -> None:
    look = call("execute_command", command="env | grep -ci -e proxy -e gateway; cat /proc/net/tcp")
    data, said = await ran(site, look)
    assert said[0].splitlines()[0] == "0"
    assert len(said[0].splitlines()) == 2  # the count, and the head of an empty table
    assert data["reach"]["network"]["summary"] == "none"


async def test_files_tools_and_jobs_in_the_background_work_beside_the_gateway(
    site: Worksite, secure: Host
) -> None:
    secure.say("/x", b"from the host")
    fetch = f"python3 get.py https://{secure.place}/x > later.txt"
    job = call("execute_command", command=fetch, background=True)
    wait = call("execute_command", command="until [ -s later.txt ]; do sleep 0.05; done")
    read = call("read_file", path="later.txt")
    data, _ = await ran(site, job, wait, read, allow_hosts=(secure.place,))
    assert [file["path"] for file in data["changeset"]["files"]] == ["later.txt"]
    assert data["reach"]["network"]["attempts"] == 1


async def test_a_replay_asks_first_and_reaches_nothing(site: Worksite, secure: Host) -> None:
    secure.say("/x", b"from the host")
    fetch = f"python3 get.py https://{secure.place}/x > seen.txt"
    async with site.open() as (equipment, workflow):
        asked = site.asked(call("execute_command", command=fetch), allow_hosts=(secure.place,))
        plan_id = await site.made(workflow, asked)
        await workflow.run(plan_id)
        with pytest.raises(ApprovalNeeded, match="beyond the workspace"):
            await replay(equipment, workflow, plan_id)
        result = await replay(equipment, workflow, plan_id, is_allowed=True)
    assert not result.is_same
    assert len(secure.seen) == 1


async def test_the_next_round_has_the_gateway_in_its_new_environment(
    site: Worksite, secure: Host
) -> None:
    secure.say("/x", b"from the host")
    fetch = f"python3 get.py https://{secure.place}/x > seen.txt"
    first = call("execute_command", command=fetch)
    again = call("execute_command", command=f"{fetch}; touch done.txt")
    options = {"allow_hosts": (secure.place,), "validate": ("test -e done.txt",)}
    _, said = await ran(site, first, done("first"), again, **options)
    assert said == ["", ""]
    assert len(secure.seen) == 2


async def test_the_package_indexes_are_there_for_commands_where_that_was_asked(
    site: Worksite,
) -> None:
    look = call(
        "execute_command",
        command="python3 -c 'import os, urllib.request as u;"
        ' print(u.urlopen(os.environ["PIP_INDEX_URL"] + "none-such/").status)\'; env | grep ^npm_c',
    )
    data, said = await ran(site, look, allow_hosts=("index",))
    assert "npm_config_registry=http://127.0.0.1:" in said[0]
    network = data["reach"]["network"]
    assert (network["summary"], network["gateways"]) == ("package indexes", ["index"])
    (place,) = network["places"]
    assert (place["place"], place["attempts"]) == ("index", 1)


async def test_what_is_still_open_when_the_work_ends_is_told_too(
    site: Worksite, secure: Host
) -> None:
    hold = (
        "import os, socket, time; from urllib.parse import urlsplit as u;"
        " gate = u(os.environ['https_proxy']); way = socket.create_connection((gate.hostname,"
        f" gate.port)); way.sendall(b'CONNECT {secure.place} HTTP/1.1\\r\\n\\r\\n');"
        " way.recv(99); open('held.txt', 'w').write('x'); time.sleep(600)"
    )
    job = call("execute_command", command=f'python3 -c "{hold}"', background=True)
    wait = call("execute_command", command="until [ -s held.txt ]; do sleep 0.05; done")
    data, _ = await ran(site, job, wait, allow_hosts=(secure.place,))
    (place,) = data["reach"]["network"]["places"]
    assert (place["place"], place["attempts"]) == (secure.place, 1)
    last = [event for event in site.heard if isinstance(event, NetworkUsed)][-1]
    assert last.call_id == ""


class Killed(BaseException):
    """The engine died here."""


async def test_the_next_life_of_an_engine_opens_the_gateway_anew_and_goes_on_counting(
    site: Worksite, secure: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure.say("/x", b"from the host")
    fetch = get(f"https://{secure.place}/x")
    calls: list[str] = []
    real = Reaching.furnished

    async def dies(self: Reaching, *arguments: Any) -> Any:
        calls.append("one")
        if len(calls) == 2:
            raise Killed
        return await real(self, *arguments)

    async with site.open() as (_, workflow):
        asked = site.asked(fetch, fetch, fetch, allow_hosts=(secure.place,))
        plan_id = await site.made(workflow, asked)
        with monkeypatch.context() as patched:
            patched.setattr(Reaching, "furnished", dies)
            with pytest.raises(Killed):
                await workflow.run(plan_id)
    async with site.open() as (equipment, workflow):
        await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    errors = [event.error for event in site.heard if isinstance(event, ToolCallSettled)]
    assert errors == [None, "OUTCOME_UNKNOWN", None]
    assert printed(site.heard) == ["200 from the host", "", "200 from the host"]
    assert data["reach"]["network"]["attempts"] == len(secure.seen) == 2


async def test_a_secret_that_is_gone_when_the_plan_goes_on_is_wrong_usage(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOUSE_TOKEN", SECRET)
    asked = site.asked(ADD, secrets=("HOUSE_TOKEN@a.example",))
    spec = spec_of(asked, site.environ)
    monkeypatch.delenv("HOUSE_TOKEN")
    async with site.open() as (equipment, workflow):
        plan_id = await workflow.create(spec)
        with pytest.raises(UsageError, match="HOUSE_TOKEN"):
            await workflow.run(plan_id)
        data = await plan_data(await site.ledger(equipment, plan_id))
    assert data["state"] == "errored"
    assert "HOUSE_TOKEN" in data["error_message"]


async def nothing_starts() -> Mapping[Site, EnvironmentSpec]:
    """The environments of a test that starts none."""
    return {}


class Deaf:
    """A toolbox that cannot open a port inside."""


async def test_where_no_port_can_be_opened_inside_that_is_said(site: Worksite) -> None:
    async with site.open() as (equipment, workflow):
        plan_id = await site.made(workflow, site.asked(ADD, allow_hosts=("a.example",)))
        ledger = await site.ledger(equipment, plan_id)
        heard: list[Event] = []
        ledger.listeners.append(heard.append)
        places = Places(equipment, ledger, nothing_starts, "execute")
        async with reaching(equipment, ledger, Phase.EXECUTE, places) as reached:
            deaf: Any = Deaf()
            args = {"command": "true"}
            kind = ExecutionEnvironment.PROCESS
            assert await reached.furnished(kind, deaf, "execute_command", args) == args
            assert await reached.furnished(kind, deaf, "read_file", args) == args
            host = ExecutionEnvironment.HOST
            assert await reached.furnished(host, deaf, "execute_command", args) == args
        await ledger.events()
    assert [event.text for event in heard if isinstance(event, Noted)] == [
        "no gateway can be opened there: it has no network"
    ]
