"""A warm pool over a worksite, and plans that are carried out beside it."""

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from engine.worksite import ADD, Worksite
from patchyard.contracts.environment import Furnished
from patchyard.contracts.pool import Pooled
from patchyard.domain.events import EnvironmentStarted
from patchyard.domain.plan import PlanSpec
from patchyard.domain.pooling import Pooling, Wish
from patchyard.engine.equipment import Equipment
from patchyard.engine.ledger import read_events
from patchyard.engine.pool import WarmPool
from patchyard.engine.wishing import wish_of
from patchyard.engine.workflow import Workflow
from patchyard.intake import spec_of

__all__ = ["LONGEST_S", "Spring", "springing"]

LONGEST_S = 120.0


@dataclass(kw_only=True)
class Spring:
    """A pool over a worksite, and plans that are carried out beside it."""

    site: Worksite
    equipment: Equipment
    pool: WarmPool
    told: list[str]
    options: Mapping[str, Any] = field(default_factory=dict)  # of each plan

    def spec(self, *replies: Any, **options: Any) -> PlanSpec:
        """Return what a plan of that script asks for."""
        made = spec_of(self.site.asked(*replies), self.site.environ)
        return replace(made, **self.options, **options)

    async def plan(self, *replies: Any, **options: Any) -> str:
        """Carry a plan out and return its id."""
        workflow = Workflow(self.equipment)
        plan_id = await workflow.create(self.spec(*replies, **options))
        self.pool.follow(await workflow.run(plan_id))
        return plan_id

    async def printed(self, plan_id: str) -> list[str]:
        """Return what the commands of a plan printed."""
        ledger = await self.site.ledger(self.equipment, plan_id)
        changeset = ledger.state.changeset
        assert changeset is not None
        assert ledger.state.base is not None
        git = ["git", f"--git-dir={ledger.state.base.store}", "show", f"{changeset.tree}:said.txt"]
        shown = await asyncio.to_thread(subprocess.run, git, check=True, capture_output=True)
        return bytes(shown.stdout).decode().splitlines()

    async def wish(self, **options: Any) -> Wish:
        """Return what a plan of the site's checkout, as it is now, would wish for."""
        base = await self.equipment.trees.snapshot(self.site.repository)
        made = wish_of(self.equipment, self.spec(ADD, **options), base, [])
        assert made is not None
        environment = self.equipment.environment(made.site.kind)
        assert isinstance(environment, Furnished)
        found = await environment.programs(base.repository, image=made.environment.image)
        return replace(made, programs=dict(found))

    async def filled(self, **options: Any) -> Wish:
        """Return a wish once a place waits that was made for it."""
        wish = await self.wish(**options)
        self.pool.prepare(wish)
        await self.waiting(wish)
        return wish

    async def waiting(self, wish: Wish) -> Pooled:
        """Return the place that was made for a wish, once it waits."""
        await self.until(lambda: any(each.wish == wish for each in self.ready))
        found: Pooled = next(each.pooled for each in self.ready if each.wish == wish)
        return found

    @property
    def ready(self) -> Sequence[Any]:
        return self.pool._ready

    async def until(self, is_so: Any, *, pause_s: float = 0.01) -> None:
        deadline = time.monotonic() + LONGEST_S
        while not is_so():
            assert time.monotonic() < deadline, self.told
            await asyncio.sleep(pause_s)

    async def started(self, plan_id: str) -> list[EnvironmentStarted]:
        """Return the environments of a plan's work."""
        found = await read_events(self.equipment.store.journal, plan_id)
        return [
            event
            for _, _, event in found
            if isinstance(event, EnvironmentStarted) and event.purpose == "execute"
        ]


@asynccontextmanager
async def springing(site: Worksite, **pooling: Any) -> AsyncIterator[Spring]:
    async with site.open() as (opened, _):
        told: list[str] = []
        pool = WarmPool(opened, Pooling(**pooling), told=told.append)
        try:
            equipment = replace(opened, pool=pool)
            yield Spring(site=site, equipment=equipment, pool=pool, told=told)
            assert not told
        finally:
            await pool.close()
