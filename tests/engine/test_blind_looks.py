"""A look at what runs that fails is made again; limits are never given up without a word of it."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.test_metering import Counted, Scripted, counted
from patchyard.contracts.environment import OnOutput
from patchyard.domain.errors import EnvironmentBroken, JournalBroken, Unavailable
from patchyard.domain.usage import Reading
from patchyard.engine import control, limit_watch, metering
from patchyard.engine.control import Word
from patchyard.engine.metering import Metered
from patchyard.engine.owning import Owner
from patchyard.engine.steering import limits_of
from toolboxes import comes_true

pytestmark = pytest.mark.anyio

OVER = Reading(memory_now=101)  # of 100 that are allowed
FAILED = OSError(24, "Too many open files")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, name in ((limit_watch, "FIRST_LOOK_S"), (limit_watch, "LOOK_S")):
        monkeypatch.setattr(place, name, 0)
    monkeypatch.setattr(metering, "JOBS_LOOK_S", 0)


class Failing(Counted):
    """A kind whose looks raise what they are told to, one after the other; the last for ever."""

    def __init__(self, *looks: Reading | Exception, is_due: bool = False) -> None:
        super().__init__()
        self.script: list[Reading | Exception] = list(looks)
        self.is_due = is_due

    def read(self) -> Reading:
        return Reading(is_due=self.is_due)

    async def look(self) -> Reading:
        look = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(look, Exception):
            raise look
        return look


class Running(Scripted):
    """A toolbox whose commands run until they are stopped."""

    def __init__(self, *, refuses: Exception | None = None) -> None:
        super().__init__()
        self.stopped = asyncio.Event()
        self.refuses = refuses

    async def call(
        self, call_id: str, op: str, args: Mapping[str, Any], *, on_output: OnOutput | None = None
    ) -> Mapping[str, Any]:
        if op == "execute_command":
            await self.stopped.wait()
        return await super().call(call_id, op, args, on_output=on_output)

    async def cancel(self, call_id: str) -> None:
        await super().cancel(call_id)
        self.stopped.set()
        if self.refuses is not None:
            raise self.refuses


def run(kind: Failing, toolbox: Scripted) -> tuple[Metered, "asyncio.Task[Mapping[str, Any]]"]:
    wrapped = counted(kind, toolbox)
    return wrapped, asyncio.create_task(wrapped.call("c", "execute_command", {}))


async def test_a_look_that_fails_is_made_again_and_the_limit_holds() -> None:
    wrapped, running = run(Failing(FAILED, Reading(), FAILED, FAILED, OVER), toolbox := Running())
    said = await running
    await wrapped.close()
    assert (said["limit"], said["limit_seen_by"]) == ("memory", "watch")
    assert ("cancel", {"call_id": "c"}) in toolbox.asked


@pytest.mark.parametrize("error", [FAILED, RuntimeError("can't start new thread"), ValueError()])
async def test_a_command_that_cannot_be_looked_at_is_ended_by_name(error: Exception) -> None:
    wrapped, running = run(Failing(Reading(), error), toolbox := Running())
    with pytest.raises(Unavailable, match="limits are not held, so it was ended") as caught:
        await running
    await wrapped.close()
    assert caught.value.__cause__ is error
    assert (str(error) or "ValueError") in caught.value.message
    assert [op for op, _ in toolbox.asked if op in {"cancel", "sweep"}] == ["cancel", "sweep"]
    assert ("sweep", {"jobs": True}) in toolbox.asked


async def test_a_look_that_is_due_after_a_command_is_made_again_or_ends_the_plan_by_name() -> None:
    said = await run(Failing(FAILED, Reading(disk_bytes=3), is_due=True), Scripted())[1]
    assert "limit" not in said
    with pytest.raises(Unavailable, match="Too many open files"):
        await run(Failing(FAILED, is_due=True), Scripted())[1]


async def test_jobs_that_cannot_be_looked_at_are_ended_and_the_next_call_tells() -> None:
    toolbox = Scripted(is_background=True)
    wrapped = counted(Failing(FAILED), toolbox)
    await wrapped.call("job", "execute_command", {"background": True})
    await comes_true(lambda: ("sweep", {"jobs": True}) in toolbox.asked)
    await comes_true(lambda: wrapped._guard is not None and wrapped._guard.done())
    with pytest.raises(Unavailable, match="limits are not held, so it was ended"):
        await wrapped.call("ask", "job_status", {"job_id": "job"})
    await wrapped.call("again", "execute_command", {"background": True})
    assert wrapped._guard is not None  # it is looked at again
    await wrapped.close()


async def test_a_command_that_cannot_be_stopped_at_its_limit_is_told() -> None:
    wrapped, running = run(Failing(OVER), Running(refuses=OSError("no such socket")))
    with pytest.raises(OSError, match="no such socket"):
        await running
    await wrapped.close()
    lost, running = run(Failing(OVER), Running(refuses=EnvironmentBroken("it is gone")))
    assert (await running)["limit"] == "memory"
    await lost.close()


async def test_a_word_that_cannot_be_read_does_not_make_the_owner_deaf(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = [Word(number=1, word=control.LIMIT, text="["), Word(number=2, word=control.CANCEL)]
    heard: list[str] = []

    async def listen(_journal: object, _plan_id: str, told: Any, *, after: int) -> None:
        assert after == 0
        for word in words:
            told(word)

    monkeypatch.setattr(control, "listen", listen)
    store = SimpleNamespace(journal=None)
    owner = Owner(equipment=cast("Any", SimpleNamespace(store=store)))
    job: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    steering = SimpleNamespace(hear=lambda word: heard.append(word.word))
    executor = SimpleNamespace(deadline=SimpleNamespace(set=heard.append))
    await owner._obey("P", job, cast("Any", steering), cast("Any", executor), after=0)
    assert job.cancelled()
    assert heard == [control.LIMIT]
    with pytest.raises(JournalBroken, match="word 1 to the plan"):
        limits_of(words[0])
