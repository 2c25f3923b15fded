"""Toolboxes that lie, in every kind: nothing forged is believed, and each call ends in its time."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from environments.yards import (
    ADAPTERS,
    CARRIED,
    KINDS,
    SSH,
    Adapter,
    Running,
    Yard,
    living,
    marks_of,
    starting,
)
from lies import (
    ANY,
    BROKEN,
    HONEST,
    IGNORED,
    LATE,
    LIES,
    SETTLED,
    SOON_S,
    Lie,
    at_greetings,
    lying_code,
)
from memory import Growth
from patchyard.clients import copies as copies_of_code
from patchyard.clients import ssh_talk
from patchyard.clients.clock import SystemClock
from patchyard.clients.process import wait_ended
from patchyard.domain.codec import to_json
from patchyard.domain.errors import EnvironmentBroken
from patchyard.domain.events import ToolCallSettled
from patchyard.domain.tooling import COMMAND, ToolResult, result_from_wire
from patchyard.engine import answers, ends
from patchyard.engine.answers import answer_in_time
from patchyard.engine.call_results import settled_event
from patchyard.engine.metering import Metered, metered
from patchyard.engine.proof import gate_result
from patchyard.environments.process import ProcessEnvironment
from patchyard.tools import execute_command
from timing import IS_SOAK

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

CRASHED = "crashed"
PATIENT_S = 10.0  # of a call that is answered
SLACK_S = 0.3  # that the engine adds to the time of a call, before it gives up
DYING_S = 0.001  # between two looks whether a place that is silent has ended
LATER_S = 10.0  # beyond these at most
#: That the engine's process may grow by while a family is told, whatever it says: the longest
#: frame, as bytes and as text, and half a million values of it.
MOST_GROWTH = 224 * 1024 * 1024
OVER_SSH = (*SSH, *CARRIED)
CARRIED_ORDINARY = "ssh-process-nobody"
EVERY = [*KINDS, pytest.param(CARRIED_ORDINARY, marks=marks_of(CARRIED_ORDINARY))]
CHEAP = [pytest.param(kind, marks=marks_of(kind)) for kind in ("process", "container")]


@pytest.fixture(scope="session")
def liar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lying_code(tmp_path_factory.mktemp("liar"))


@pytest.fixture(params=EVERY if IS_SOAK else CHEAP)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def adapter(
    kind: str, yard: Yard, liar: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Adapter]:
    """A kind whose toolbox lies, and whose honest code is that of no other test."""
    for module in (copies_of_code, ssh_talk):
        monkeypatch.setattr(module, "TOOLBOX_FOLDER", liar)
    monkeypatch.setattr(answers, "SLACK_S", SLACK_S)
    monkeypatch.setattr(ends, "DYING_S", DYING_S)
    monkeypatch.setattr(ends, "LOOKS", 2)
    ssh_talk.code.cache_clear()
    yield yard.adapter(kind)
    ssh_talk.code.cache_clear()


@dataclass(kw_only=True)
class Place:
    """An environment whose toolbox lies, with an honest one beside it."""

    kind: str
    running: Running
    beside: Running
    heard: list[str] = field(default_factory=list)
    toolbox: Metered | None = None

    async def told(
        self, steps: Sequence[Mapping[str, Any]], *, within_s: float = PATIENT_S, call_id: str = ""
    ) -> tuple[str, Any]:
        """Let a script be told to one call; return its result, and its error or event."""
        self.heard = []
        asked = {"command": f"#lie {json.dumps(list(steps))}", "timeout_s": within_s}
        loop = asyncio.get_running_loop()
        began = loop.time()
        said: object
        try:
            found, said = SETTLED, await self._settled(asked, call_id or SystemClock().new_id())
        except EnvironmentBroken as error:
            found, said = LATE if "no answer within" in error.message else BROKEN, error
        except Exception as error:  # noqa: BLE001 - whatever a lie can raise is told by its name
            found, said = CRASHED, error
        if found != SETTLED:
            await self.hang_up()
        if loop.time() - began > within_s + SLACK_S + LATER_S:
            found = f"after {loop.time() - began:.1f} s"
        return found, said

    async def _settled(self, asked: Mapping[str, Any], call_id: str) -> ToolCallSettled:
        if self.toolbox is None:
            adapter, handle = self.running.adapter, self.running.handle
            self.toolbox = metered(adapter, handle, await adapter.attach(handle))
        hear = partial(_hear, self.heard)
        waiting = self.toolbox.call(call_id, COMMAND, asked, on_output=hear)
        return judged(result_from_wire(call_id, await answer_in_time(waiting, asked)))

    async def hang_up(self) -> None:
        toolbox, self.toolbox = self.toolbox, None
        if toolbox is not None:
            await toolbox.close()

    async def tried(self, family: str, lie: Lie) -> tuple[str, Any]:
        """Tell a lie of a family, and return the result of the call that it may mislead."""
        if family == "greetings":
            await self.told(at_greetings(lie))
            await self.hang_up()
            return await self.told([HONEST])
        if family == "between":
            await self.told(lie.steps)
            await self.beside.run("sleep 0.1")  # the lie is told meanwhile
            found = await self.told([HONEST], within_s=SOON_S, call_id="01NEXT")
            await self.hang_up()
            return found
        return await self.told(lie.steps, within_s=lie.within_s)


def _hear(heard: list[str], _stream: str, text: str) -> None:
    heard.append(text)


def judged(result: ToolResult) -> ToolCallSettled:
    """Do with a result all that an engine does with it, and return its event."""
    event = settled_event(result)
    json.dumps(to_json(event), allow_nan=False).encode("ascii")
    for moment in (event.started, event.ended):
        datetime.fromtimestamp(moment, UTC)
    assert event.ended >= event.started or not event.ended
    shown = execute_command.tool("/shop").render(result)
    shown.encode("utf-8", "surrogateescape")
    gate = gate_result("x", result)
    assert type(gate.exit_code) in {int, type(None)}
    if gate.passed:
        assert (result.data["exit_code"], result.success) == (0, True)
    return event


def descriptors() -> int:
    """How many this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


@contextlib.asynccontextmanager
async def placed(kind: str, adapter: Adapter, yard: Yard) -> AsyncIterator[Place]:
    honest = ProcessEnvironment(yard.station)
    async with starting(adapter) as start, starting(honest) as beside:
        spec = yard.spec()
        near = Yard(folder=yard.folder, station=yard.station, workspace=yard.workspace).spec()
        yield Place(kind=kind, running=await start(spec), beside=await beside(near))


def fits(lie: Lie, found: str, said: Any, kind: str) -> bool:
    """Whether that may come of a lie."""
    if found not in {BROKEN, LATE, SETTLED}:
        return False
    if found == BROKEN and not any(word in said.message for word in ("toolbox", "machine")):
        return False
    if lie.expected == IGNORED:
        return bool(found == SETTLED and said.success)
    if lie.expected == BROKEN and kind in OVER_SSH:
        # A connection is made again, up to ten times: the next greeting is an honest one, and what
        # takes long takes ten times as long.
        is_outlived = lie in LIES["greetings"] and found == SETTLED and said.success
        return is_outlived or found == BROKEN or (lie.is_long and found == LATE)
    return lie.expected in {ANY, found}


def shortened(kind: str, family: str) -> Sequence[Lie]:
    """The lies of a family; in CI those that cost time are told in one kind, and others in turn."""
    lies = LIES[family]
    if IS_SOAK or kind == "process":
        return lies
    short = [lie for lie in lies if not lie.is_long]
    return short[:: max(1, len(short) // 40)] if family in {"fields", "results"} else short


def test_every_kind_is_lied_to_in_a_soak() -> None:
    left_out = set(ADAPTERS) - {each.values[0] for each in EVERY}
    assert left_out <= (set() if IS_SOAK else {"container-runsc-current"})


@pytest.mark.timeout(3000 if IS_SOAK else 900)
@pytest.mark.parametrize("family", LIES)
async def test_no_lie_is_believed_holds_others_up_or_leaves_anything(
    kind: str, family: str, adapter: Adapter, yard: Yard
) -> None:
    wrong = []
    lies = shortened(kind, family)
    async with placed(kind, adapter, yard) as place:
        await place.told([HONEST])
        await place.hang_up()
        open_before = descriptors()
        growth = Growth()
        for lie in lies:
            telling = asyncio.create_task(place.tried(family, lie))
            if family == "streams":
                assert await place.beside.run("echo on") == "on", lie.name
            found, said = await telling
            most = growth.most
            if most > MOST_GROWTH or "forged" in place.heard or not fits(lie, found, said, kind):
                wrong.append(f"{lie.name}: {found}, not {lie.expected}: {said!r:.200} {most:,}")
        await place.hang_up()
        assert await place.beside.run("echo on") == "on"
        open_after = descriptors()
    if IS_SOAK:
        print(f"lies told: {kind}, {family}: {len(lies)}, at most {growth.most >> 20} MiB more")  # noqa: T201 - figures of a soak
    assert not wrong, "\n".join(wrong)
    assert open_after <= open_before
    for process in living(yard):
        assert await asyncio.to_thread(wait_ended, process, timeout_s=60)
