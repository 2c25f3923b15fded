"""Regular expressions run beside the engine: bounded, restartable, ended with their owner."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from patchyard.clients import substitution
from patchyard.clients.substitution import Substituter, Substitution

pytestmark = pytest.mark.anyio

PATIENT_S = 120.0
ENDLESS = Substitution(text="a" * 40 + "!", pattern="(a+)+$", replacement="")
PLAIN = Substitution(text="a\udcff1", pattern=r"(\d)", replacement=r"<\1>")


@pytest.fixture
async def substituter() -> AsyncIterator[Substituter]:
    made = Substituter(deadline_s=PATIENT_S)
    yield made
    await made.close()


def pid_of(substituter: Substituter) -> int:
    assert substituter._process is not None
    return substituter._process.pid


async def test_replaces_and_counts_whatever_bytes_the_text_holds(substituter: Substituter) -> None:
    done = await substituter.replace(PLAIN)
    assert (done.text, done.count, done.problem) == ("a\udcff<1>", 1, "")
    first = pid_of(substituter)
    await substituter.replace(PLAIN)
    assert pid_of(substituter) == first


@pytest.mark.parametrize(("pattern", "replacement"), [("(", ""), ("a", r"\9"), ("a{1,", r"\g<x>")])
async def test_a_bad_pattern_or_group_is_a_problem(
    substituter: Substituter, pattern: str, replacement: str
) -> None:
    wanted = Substitution(text="aa{1,", pattern=pattern, replacement=replacement)
    assert (await substituter.replace(wanted)).problem


async def test_an_endless_pattern_is_given_up_and_the_next_one_works() -> None:
    substituter = Substituter(deadline_s=0.2)
    assert "longer than" in (await substituter.replace(ENDLESS)).problem
    await substituter.close()
    again = Substituter(deadline_s=PATIENT_S)
    assert (await again.replace(PLAIN)).count == 1
    await again.close()
    await again.close()


async def test_a_process_that_dies_is_a_problem_and_a_new_one_is_started(
    substituter: Substituter,
) -> None:
    await substituter.replace(PLAIN)
    os.kill(pid_of(substituter), signal.SIGKILL)
    assert (await substituter.replace(PLAIN)).problem
    assert (await substituter.replace(PLAIN)).count == 1


async def test_cancelling_ends_the_process(substituter: Substituter) -> None:
    await substituter.replace(PLAIN)
    pid = pid_of(substituter)
    work = asyncio.ensure_future(substituter.replace(ENDLESS))
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_process_that_ended_by_itself_is_closed_without_ado() -> None:
    substituter = Substituter(deadline_s=PATIENT_S)
    await substituter.replace(PLAIN)
    process = substituter._process
    assert process is not None
    process.kill()
    await process.wait()
    await substituter.close()
    assert substituter._process is None


async def test_an_answer_that_is_longer_than_a_line_may_be_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(substitution, "LINE_BYTES", 100)
    substituter = Substituter(deadline_s=PATIENT_S)
    long = Substitution(text="a" * 200_000, pattern="b", replacement="")
    assert "more memory or time" in (await substituter.replace(long)).problem
    await substituter.close()
