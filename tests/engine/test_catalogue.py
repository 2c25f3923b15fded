"""The stream "home": projects, resources, actions, invariants and trust survive as events."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from patchyard.clients.clock import SystemClock
from patchyard.contracts.journal import NewEvent
from patchyard.domain.action import Action
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import JournalBroken, UnknownName, UsageError
from patchyard.domain.holdings import Holdings
from patchyard.domain.invariant import Invariant, Scope
from patchyard.domain.project import Project
from patchyard.domain.resource import Resource
from patchyard.engine.catalogue import Catalogue
from patchyard.stores.sqlite import SQLiteJournal

pytestmark = pytest.mark.anyio


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[SQLiteJournal]:
    opened = SQLiteJournal.open(tmp_path / "db")
    yield opened
    await opened.close()


@pytest.fixture
def catalogue(journal: SQLiteJournal) -> Catalogue:
    return Catalogue(journal, SystemClock())


def invariant(name: str, scope: Scope, target: str = "") -> Invariant:
    return Invariant(invariant_id=name, text=name, scope=scope, target=target, check="true")


async def test_everything_is_read_back_as_it_was_written(
    catalogue: Catalogue, journal: SQLiteJournal
) -> None:
    await catalogue.create_project(Project(name="p", repository="/r"))
    kind = ExecutionEnvironment.PROCESS
    await catalogue.add_resource(Resource(name="d", type="directory", execution_environment=kind))
    await catalogue.link("p", "d")
    await catalogue.link("p", "d")
    await catalogue.set_context("p", "limits", {"budget_usd": 2})
    await catalogue.set_context("p", "validate", [])
    action = Action(name="a", steps=({"run": "x" * 20_000},), validate=("v",))
    await catalogue.save_action(action)
    await catalogue.trust("/r", "abc")
    holdings = await Catalogue(journal, SystemClock()).holdings()
    project = holdings.project("p")
    assert project.validate == ()
    assert project.limits is not None
    assert project.limits.budget_usd == 2.0
    assert [r.execution_environment for r in project.linked(holdings.resources)] == [kind]
    assert holdings.actions == {"a": action}
    assert holdings.is_trusted("/r", "abc")
    assert not holdings.is_trusted("/r", "abd")
    assert not holdings.is_trusted("/other", "")


async def test_removing_takes_away_what_hung_on_it(catalogue: Catalogue) -> None:
    await catalogue.create_project(Project(name="p", repository="/r"))
    await catalogue.add_resource(Resource(name="d", type="directory"))
    await catalogue.link("p", "d")
    await catalogue.remove_resource("d")
    assert (await catalogue.holdings()).project("p").resources == ()
    await catalogue.add_invariant(invariant("AA", Scope.PROJECT, "p"))
    await catalogue.delete_project("p")
    assert (await catalogue.holdings()).invariants == ()
    await catalogue.trust("/r", "x")
    assert await catalogue.revoke("/r")
    assert not await catalogue.revoke("/r")


async def test_invariants_come_by_scope(catalogue: Catalogue) -> None:
    await catalogue.create_project(Project(name="p", repository="/r"))
    for made in (
        invariant("AA", Scope.GLOBAL),
        invariant("AB", Scope.PROJECT, "p"),
        invariant("BC", Scope.ACTION, "a"),
    ):
        await catalogue.add_invariant(made)
    holdings = await catalogue.holdings()
    found = [i.invariant_id for i in holdings.invariants_for(project="p", action="other")]
    assert found == ["AA", "AB"]
    assert len(holdings.invariants_for(project="p", action="a")) == 3
    with pytest.raises(UsageError, match="A is ambiguous: 2") as refused:
        await catalogue.remove_invariant("A")
    assert "AA, AB" in refused.value.hint
    with pytest.raises(UnknownName):
        await catalogue.remove_invariant("Z")
    assert (await catalogue.remove_invariant("b")).invariant_id == "BC"


async def test_names_and_types_that_do_not_fit_are_refused(catalogue: Catalogue) -> None:
    project = Project(name="p", repository="/r")
    await catalogue.create_project(project)
    with pytest.raises(UsageError, match="already"):
        await catalogue.create_project(project)
    with pytest.raises(UsageError, match="no name"):
        await catalogue.create_project(Project(name="../p", repository="/r"))
    with pytest.raises(UnknownName, match="'p'"):
        await catalogue.delete_project("pp")
    with pytest.raises(UsageError, match="this version"):
        await catalogue.add_resource(Resource(name="v", type="kubernetes"))
    with pytest.raises(UsageError, match="unknown resource type"):
        await catalogue.add_resource(Resource(name="v", type="dir"))
    with pytest.raises(UnknownName):
        await catalogue.link("p", "absent")
    with pytest.raises(UnknownName):
        await catalogue.add_invariant(invariant("A", Scope.PROJECT, "absent"))
    with pytest.raises(UsageError, match="needs a text"):
        await catalogue.add_invariant(Invariant(invariant_id="A", text=" ", scope=Scope.GLOBAL))
    with pytest.raises(UsageError, match="unknown key"):
        await catalogue.set_context("p", "validat", [])


async def test_a_checkout_gets_a_project_of_its_own_once(catalogue: Catalogue) -> None:
    first = await catalogue.project_here("/src/my shop")
    assert (first.name, first.is_implicit) == ("my-shop", True)
    assert await catalogue.project_here("/src/my shop") == first
    assert (await catalogue.project_here("/other/my shop")).name == "my-shop-2"


async def test_a_project_with_a_name_takes_over_what_its_checkout_had(catalogue: Catalogue) -> None:
    implicit = await catalogue.project_here("/src/shop")
    await catalogue.set_context("shop", "validate", ["make test"])
    await catalogue.add_invariant(invariant("AA", Scope.PROJECT, "shop"))
    made = await catalogue.create_project(Project(name="mine", repository="/src/shop"))
    assert (made.validate, made.is_implicit) == (("make test",), False)
    holdings = await catalogue.holdings()
    assert list(holdings.projects) == ["mine"]
    assert [i.target for i in holdings.invariants_for(project="mine")] == ["mine"]
    assert await catalogue.project_here("/src/shop") == made != implicit
    with pytest.raises(UsageError, match="project already: mine") as refused:
        await catalogue.create_project(Project(name="other", repository="/src/shop"))
    assert "agents project delete mine" in refused.value.hint


async def test_an_implicit_project_keeps_its_name_when_it_is_given_it(catalogue: Catalogue) -> None:
    await catalogue.project_here("/src/shop")
    made = await catalogue.create_project(Project(name="shop", repository="/src/shop"))
    assert not made.is_implicit
    assert list((await catalogue.holdings()).projects) == ["shop"]


def test_the_newest_project_that_was_made_wins_over_older_and_implicit_ones() -> None:
    made = [
        Project(name="a", repository="/r"),
        Project(name="b", repository="/r"),
        Project(name="c", repository="/r", is_implicit=True),
    ]
    holdings = Holdings(projects={project.name: project for project in made})
    found = holdings.project_of("/r")
    assert found is not None
    assert found.name == "b"


async def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    async def write(number: int) -> None:
        journal = SQLiteJournal.open(tmp_path / "db")
        catalogue = Catalogue(journal, SystemClock())
        for step in range(3):
            name = f"p{number}-{step}"
            await catalogue.create_project(Project(name=name, repository=f"/{name}"))
            await asyncio.sleep(0)
        await journal.close()

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(write(number))
    journal = SQLiteJournal.open(tmp_path / "db")
    assert len((await Catalogue(journal, SystemClock()).holdings()).projects) == 12
    await journal.close()


async def test_an_event_of_a_newer_version_is_not_guessed_at(
    catalogue: Catalogue, journal: SQLiteJournal
) -> None:
    event = NewEvent(type="SomethingNew", schema=1, at=0.0, body={})
    await journal.append("home", 0, [event])
    with pytest.raises(JournalBroken, match="SomethingNew"):
        await catalogue.holdings()
