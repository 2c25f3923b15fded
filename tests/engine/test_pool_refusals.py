"""What the pool does not make is told, or started by the plan itself; nothing waits for it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.springs import Spring, springing
from engine.worksite import ADD, Worksite, done
from janitor.passing import left
from patchyard.domain.resource import Resource
from patchyard.engine.wishing import prepared
from patchyard.engine.workflow import Workflow

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]


@pytest.fixture
async def spring(site: Worksite) -> AsyncIterator[Spring]:
    async with springing(site) as made:
        yield made


async def test_what_cannot_be_made_is_told_and_holds_nothing_up(spring: Spring) -> None:
    wish = await spring.wish(mounts=("/nowhere:ro",))
    spring.pool.prepare(wish)
    assert await spring.pool.take(wish) is None
    assert spring.told.pop()
    assert left(spring.site) == []


@pytest.mark.parametrize(
    "options",
    [
        {"environment": "host"},
        {"setup": ("true",)},
        {
            "environment": "box",
            "resources": (Resource(name="box", type="container-instance", image="none/such:1"),),
        },
    ],
    ids=["of another kind", "before its setup", "without a container engine"],
)
async def test_nothing_is_prepared_where_it_cannot_be(
    spring: Spring, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    wish = await spring.wish()
    plan_id = await Workflow(spring.equipment).create(spring.spec(ADD, done(), **options))
    state = (await spring.site.ledger(spring.equipment, plan_id)).state
    monkeypatch.setattr(spring.pool, "prepare", lambda _: pytest.fail("it was prepared"))
    await prepared(spring.equipment, state, wish.base)
