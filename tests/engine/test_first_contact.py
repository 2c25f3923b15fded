"""A place that breaks before its toolbox answers: nothing ran there, so it is started once more."""

from collections.abc import Sequence
from typing import Any

import pytest

from engine.worksite import Worksite, call
from patchyard.domain.errors import EnvironmentUnavailable, StartBroken
from patchyard.domain.events import EnvironmentStarted, Noted
from patchyard.environments import process

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

BREAKS = ["/usr/bin/python3", "-c", "raise OSError(11, 'no time')"]
REFUSES = ["/no/such/program"]


def breaking(
    monkeypatch: pytest.MonkeyPatch, instead: Sequence[str], *, times: int
) -> list[Sequence[str]]:
    """Let the first sandboxes start something else than a toolbox; all that were started."""
    started: list[Sequence[str]] = []
    whole = process._toolbox_command

    def command(*given: Any) -> Sequence[str]:
        started.append(instead if len(started) < times else whole(*given))
        return started[-1]

    monkeypatch.setattr(process, "_toolbox_command", command)
    return started


def notes(site: Worksite) -> list[str]:
    return [event.text for event in site.heard if isinstance(event, Noted)]


async def test_one_that_breaks_once_is_started_again_and_the_journal_says_so(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaking(monkeypatch, BREAKS, times=1)
    asked = site.asked(call("write_file", path="b", content="b"), validate=("true",))
    async with site.open() as (_, workflow):
        await workflow.run(await site.made(workflow, asked))
    (note,) = notes(site)
    assert "`process` broke at its first contact and is started once more" in note
    assert note.endswith("BlockingIOError: [Errno 11] no time")
    kinds = {event.handle.kind for event in site.heard if isinstance(event, EnvironmentStarted)}
    assert kinds == {"process"}


async def test_one_that_breaks_again_is_an_error_with_its_last_words(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = breaking(monkeypatch, BREAKS, times=9)
    async with site.open() as (_, workflow):
        plan_id = await site.made(workflow, site.asked(call("read_file", path="a.txt")))
        with pytest.raises(StartBroken, match=r"BlockingIOError: \[Errno 11\] no time"):
            await workflow.run(plan_id)
    assert (len(started), len(notes(site))) == (2, 1)


async def test_one_that_the_machine_refuses_is_not_started_again(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = breaking(monkeypatch, REFUSES, times=9)
    async with site.open() as (_, workflow):
        plan_id = await site.made(workflow, site.asked(call("read_file", path="a.txt")))
        with pytest.raises(EnvironmentUnavailable, match="bwrap: execvp") as refused:
            await workflow.run(plan_id)
    assert not isinstance(refused.value, StartBroken)
    assert (len(started), notes(site)) == (1, [])
