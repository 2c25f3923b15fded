"""The warm pool of one engine: pairs of a fresh tree and a fresh environment, one plan each.

A pair has a name of its own until a plan takes it; `adopting` makes that plan its owner. Killed, an
engine leaves environments that end by themselves after their grace time, and trees for the janitor.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchyard.contracts.environment import Environment, Toolbox
from patchyard.contracts.pool import Pooled
from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.environment import EnvironmentHandle
from patchyard.domain.errors import EnvironmentBroken, PatchyardError
from patchyard.domain.pooling import Pooling, PoolRow, Wish
from patchyard.domain.retention import pooled_name
from patchyard.domain.state import PlanState
from patchyard.engine.answers import whole
from patchyard.engine.equipment import Equipment
from patchyard.engine.parting import LEAST_S, Parting, in_time, let_go, parting
from patchyard.engine.wishing import prepared, spec_at

ANSWER_S = 5.0  # for one that is given away
NEVER = "pool"  # no call's name
SHOWN_S = 0.1

Told = Callable[[str], None]
Shown = Callable[[Sequence[PoolRow]], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Ready:
    """A pair that waits."""

    wish: Wish
    pooled: Pooled
    toolbox: Toolbox  # without a connection it would end itself


class WarmPool:
    """contracts.pool.Pool over the adapters of one engine, until `close`."""

    def __init__(
        self, equipment: Equipment, pooling: Pooling, *, told: Told, shown: Shown | None = None
    ) -> None:
        """Take the adapters; `told` hears of failures, `shown` how it stands after each change."""
        self._shown = shown
        self._equipment = equipment
        self._pooling = pooling
        self._told = told
        self._ready: list[Ready] = []  # the oldest first
        self._given: dict[str, Toolbox] = {}  # of those that were taken, until they are asked for
        self._making: dict[asyncio.Task[None], Wish] = {}
        self._errands: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()  # one is made at a time
        self._is_open = True

    @property
    def waiting(self) -> Sequence[Ready]:
        """Those that wait for a plan, the oldest first."""
        return tuple(self._ready)

    @property
    def _coming(self) -> Sequence[Wish]:
        """What is being made. One that is made waits already, though its task is told of later."""
        return [wish for task, wish in self._making.items() if not task.done()]

    def prepare(self, wish: Wish) -> None:
        """See contracts.pool.Pool."""
        for each in self.waiting:
            if each.wish == wish and each.wish.programs != wish.programs:
                self._drop(each)
        while self._is_open and self._has_room(wish):
            task = asyncio.create_task(self._make(wish), name="pool: making a place")
            self._making[task] = wish
            task.add_done_callback(self._made)
        self._show()

    def follow(self, state: PlanState) -> None:
        """See contracts.pool.Pool."""
        if self._is_open and self._pooling.size:
            self._run(self._follow(state), name="pool: looking at a checkout")

    async def take(self, wish: Wish) -> Pooled | None:
        """See contracts.pool.Pool."""
        self._end_outdated(wish)
        if self._alike(wish) is None:
            coming = [task for task, wanted in self._making.items() if wanted == wish]
            if coming:
                await asyncio.wait(coming, return_when=asyncio.FIRST_COMPLETED)
        while (found := self._alike(wish)) is not None:
            self._ready.remove(found)  # before anything is waited for: no other plan gets it
            asyncio.get_running_loop().call_later(SHOWN_S, self._show)  # a plan waits
            is_given = False
            try:
                is_given = await _is_up(found)
            finally:
                if not is_given:  # it is dead, or who wanted it was cancelled
                    self._run(self._end(found), name="pool: ending a place that is not given")
            if is_given:
                self._given[found.pooled.handle.environment_id] = found.toolbox
                return found.pooled
        return None

    def connection(self, environment_id: str) -> Toolbox | None:
        """See contracts.pool.Pool."""
        return self._given.pop(environment_id, None)

    async def give_up(self, pooled: Pooled) -> None:
        """See contracts.pool.Pool."""
        environment = self._equipment.environment(pooled.handle.kind)
        toolbox = self.connection(pooled.handle.environment_id)
        if toolbox is not None:
            await _quietly(toolbox.close())
        try:
            await in_time(environment.end(pooled.handle))
            await whole(self._equipment.workspaces.remove(pooled.workspace))
        except PatchyardError as error:
            self._told(f"pool: {error.message}")

    async def close(self) -> None:
        """End all that waits or is being made, within some seconds. Idempotent.

        What has not ended by then ends by itself after its grace time, or a later pass ends it.
        """
        self._is_open = False
        for task in self._making:
            task.cancel()
        with parting() as own:
            own.begin()
            await self._outwait(own, {*self._making})
            ready, self._ready = self._ready, []
            given, self._given = self._given, {}
            ending = {asyncio.create_task(self._end(each)) for each in ready}
            ending |= {asyncio.create_task(_quietly(toolbox.close())) for toolbox in given.values()}
            await self._outwait(own, {*self._errands, *ending})

    async def _outwait(self, own: Parting, tasks: set[asyncio.Task[None]]) -> None:
        """Await the end of tasks for as long as the parting leaves, and cancel those that stay."""
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=(own.left_s or 0.0) + LEAST_S)
        for task in late:
            task.cancel()  # an end that was begun before has PARTING_S from here
            self._told("pool: a place did not end in time; it ends by itself later")
        await asyncio.gather(*tasks, return_exceptions=True)

    def _alike(self, wish: Wish) -> Ready | None:
        return next((each for each in reversed(self._ready) if each.wish == wish), None)

    def _has_room(self, wish: Wish) -> bool:
        """Whether one more of `wish` may be made; others go for it where there are too many."""
        wanted = [*(each.wish for each in self._ready), *self._coming]
        if wanted.count(wish) >= self._pooling.size:
            return False
        own = [each for each in self._ready if each.wish.project == wish.project]
        is_full = sum(each.project == wish.project for each in wanted) >= self._pooling.size
        if is_full and not self._make_room([each for each in own if each.wish != wish]):
            return False
        is_full = len(self._ready) + len(self._coming) >= self._pooling.total
        return not is_full or self._make_room([e for e in self._ready if e.wish != wish])

    def _make_room(self, those: list[Ready]) -> bool:
        """End the first of `those`; False when there is none."""
        if not those:
            return False
        self._drop(those[0])
        return True

    def _end_outdated(self, wish: Wish) -> None:
        """End what was made of another base of the same checkout: nobody will want it."""
        for each in list(self._ready):
            base = each.wish.base
            if base.repository == wish.base.repository and base != wish.base:
                self._drop(each)

    def _drop(self, ready: Ready) -> None:
        """End one that waits, if it still does."""
        if ready in self._ready:
            self._ready.remove(ready)
            self._show()
            self._run(self._end(ready), name="pool: ending a place")

    def _run(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._errands.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._errands.discard(task)
        self._tell(task)

    def _made(self, task: asyncio.Task[None]) -> None:
        del self._making[task]
        self._show()
        self._tell(task)

    def _show(self) -> None:
        """Say how it stands to who wants to know."""
        if self._shown is None or not self._is_open:
            return
        ready = Counter(each.wish.project for each in self._ready)
        making = Counter(wish.project for wish in self._coming)
        names = sorted({*ready, *making})
        rows = [PoolRow(project=n, ready=ready[n], making=making[n]) for n in names]
        self._shown(rows)

    def _tell(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            said = error.message if isinstance(error, PatchyardError) else repr(error)
            self._told(f"{task.get_name()}: {said}")

    async def _follow(self, state: PlanState) -> None:
        spec, equipment = state.known, replace(self._equipment, pool=self)
        base = await equipment.trees.snapshot(Path(spec.repository), ref=spec.ref)
        await prepared(equipment, state, base)

    async def _make(self, wish: Wish) -> None:
        equipment = self._equipment
        workspaces = equipment.workspaces
        name = equipment.clock.new_id()
        async with self._turn:
            equipment.room.require()
            creating = workspaces.create(
                wish.base,
                workspace_id=pooled_name(name),
                layers=[Path(layer) for layer in wish.layers],
                folders=wish.folders,
            )
            workspace = await whole(creating, undo=workspaces.remove)
            try:
                handle, toolbox = await self._started(wish, name, workspace)
            except BaseException:
                await whole(workspaces.remove(workspace))
                raise
        ready = Ready(wish=wish, pooled=Pooled(workspace=workspace, handle=handle), toolbox=toolbox)
        self._ready.append(ready)
        asyncio.get_running_loop().call_later(self._pooling.age, self._drop, ready)

    async def _started(
        self, wish: Wish, name: str, workspace: WorkspaceRef
    ) -> tuple[EnvironmentHandle, Toolbox]:
        environment = self._equipment.environment(wish.site.kind)
        spec = spec_at(self._equipment, wish.plan, name, workspace, wish.site)
        handle = await environment.start(spec)
        return handle, await _reached(environment, handle)

    async def _end(self, ready: Ready) -> None:
        try:
            await _quietly(ready.toolbox.close())
        finally:
            await self.give_up(ready.pooled)


async def _reached(environment: Environment, handle: EnvironmentHandle) -> Toolbox:
    try:
        return await environment.attach(handle)
    except BaseException:
        with suppress(EnvironmentBroken):  # the failure to attach is the one to tell
            await in_time(environment.end(handle))
        raise


async def _is_up(ready: Ready) -> bool:
    """Whether its toolbox answers, over the connection that its plan goes on with."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await ready.toolbox.attach(NEVER) is None
    except (EnvironmentBroken, TimeoutError):
        return False


async def _quietly(work: Awaitable[None]) -> None:
    """Await the end of a connection whose environment ends now anyway."""
    with suppress(EnvironmentBroken):
        await let_go(work)


__all__ = ["ANSWER_S", "NEVER", "SHOWN_S", "Ready", "Shown", "Told", "WarmPool"]
