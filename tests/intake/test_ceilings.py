"""The limits that plans share: where they are said, who wins, and when a change counts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from patchyard import ceilings
from patchyard.ceilings import SettingsBudgets
from patchyard.clients.clock import SystemClock
from patchyard.domain.booking import Account, Bound
from patchyard.domain.budget import Ceiling
from patchyard.domain.errors import UsageError
from patchyard.domain.project import Project
from patchyard.engine.catalogue import Catalogue
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.anyio

DAY = "2026-11-21"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "FRESH_S", -1.0)


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[SQLiteJournal]:
    opened = SQLiteJournal.open(tmp_path / "patchyard.db")
    yield opened
    await opened.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The user's file."""
    found = tmp_path / "config" / "patchyard" / "config.yaml"
    found.parent.mkdir(parents=True)
    return found


def budgets(journal: SQLiteJournal, place: Path, **environ: str) -> SettingsBudgets:
    return SettingsBudgets(
        {"XDG_CONFIG_HOME": str(place.parents[1]), **environ}, journal, SystemClock()
    )


def say(place: Path, text: str) -> None:
    """Write the user's file."""
    place.write_text(text)


def usd(found: list[Bound]) -> dict[str, int | None]:
    return {bound.account.prefix: bound.ceiling.nano_usd for bound in found}


async def test_nothing_said_bounds_nothing(journal: SQLiteJournal, place: Path) -> None:
    assert await budgets(journal, place).bounds("shop", DAY) == ()


async def test_a_variable_wins_over_the_project_and_that_over_the_users_file(
    journal: SQLiteJournal, place: Path, tmp_path: Path
) -> None:
    catalogue = Catalogue(journal, SystemClock())
    await catalogue.create_project(Project(name="shop", repository=str(tmp_path)))
    await catalogue.set_context("shop", "budget", {"project_usd": 2, "project_day_usd": 20})
    say(place, "budget: {total_usd: 1, project_usd: 10, project_day_usd: 10}\n")
    found = budgets(journal, place, PATCHYARD_BUDGET="{project_day_usd: 3}")
    one = 10**9
    assert usd(list(await found.bounds("shop", DAY))) == {
        "total": one,
        "project": 2 * one,
        "project_day": 3 * one,
    }
    assert usd(list(await found.bounds("blog", DAY)))["project"] == 10 * one
    assert usd(list(await found.bounds("", DAY))) == {"total": one}


async def test_what_is_set_anew_counts_at_once_and_a_file_being_edited_stops_nobody(
    journal: SQLiteJournal, place: Path
) -> None:
    say(place, "budget: {day_calls: 5}\n")
    found = budgets(journal, place)
    five = [Bound(account=Account(day=DAY), ceiling=Ceiling(calls=5))]
    assert await found.bounds("", DAY) == five
    say(place, "budget: {day_calls: \n")
    assert await found.bounds("", DAY) == five
    say(place, "budget: {day_calls: 50}\n")
    assert [bound.ceiling.calls for bound in await found.bounds("", DAY)] == [50]
    say(place, "")
    assert await found.bounds("", DAY) == ()


async def test_a_file_that_was_never_right_is_refused(journal: SQLiteJournal, place: Path) -> None:
    say(place, "budget: {day_calls: many}\n")
    with pytest.raises(UsageError, match="day_calls"):
        await budgets(journal, place).bounds("", DAY)


async def test_the_context_of_a_project_bounds_nobody_elses_plans(
    journal: SQLiteJournal, tmp_path: Path
) -> None:
    catalogue = Catalogue(journal, SystemClock())
    await catalogue.create_project(Project(name="shop", repository=str(tmp_path)))
    with pytest.raises(UsageError, match="day_usd"):
        await catalogue.set_context("shop", "budget", {"day_usd": 2})
