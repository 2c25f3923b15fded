"""The battery at work: environments of one kind over scratch workspaces, every attack in turn."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchyard.contracts.environment import Environment, Trying
from patchyard.domain.environment import EnvironmentHandle, EnvironmentSpec, Limits, Mount
from patchyard.domain.errors import EnvironmentBroken, PatchyardError
from patchyard.engine.ends import health_at_end
from patchyard.probing.attack import Attack, Report, Ruling, Run, Where
from patchyard.probing.attacks.resources import BOUNDS
from patchyard.probing.bait import Bait
from patchyard.probing.battery import all_attacks
from patchyard.probing.evidence import end_processes_of
from patchyard.probing.forging import forge
from patchyard.probing.judging import judge, without_root
from patchyard.probing.known import known_of
from patchyard.probing.running import Inside, run_control
from patchyard.probing.scene import Scene
from patchyard.probing.trees import Checkout, Ground

AT_ONCE = 4
ATTEMPTS_ALONE = 2  # a sandbox may crash by itself; an attack that ends its place does so each time
TOGETHER = (Where.WORKING, Where.PLANNING, Where.ENDING, Where.TREE)
AFTERWARDS = (Where.ENGINE, Where.BOUNDED)  # the one needs no place, the other all there is
PURPOSE = "probe"


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What the battery knows of the engine that it belongs to."""

    identity: tuple[int, int] | None  # UID and GID of the agent; None: our own
    state: Path  # the engine's folder of state, where bait is planted too
    runtime: Path  # below it lie the sockets of toolboxes
    show: Callable[[str], str]  # how the command line shows text of others
    ground: Ground
    new_id: Callable[[], str]


@dataclass(frozen=True, kw_only=True)
class Place:
    """One running environment and the workspaces that belong to it."""

    inside: Inside
    handle: EnvironmentHandle
    workspace: Path  # of the environment, as it lies here
    target: str  # as it shows inside
    unprotected: Path  # of the controls
    socket: str  # of the toolbox, as it lies here


class Prober:
    """One probe of one kind."""

    def __init__(
        self,
        adapter: Environment,
        surroundings: Surroundings,
        *,
        attacks: Sequence[Attack] | None = None,
        spec: EnvironmentSpec | None = None,
    ) -> None:
        """Take the kind, and what its places are started with where that is known already."""
        self._adapter = adapter
        self._around = surroundings
        self._attacks = all_attacks(surroundings.show) if attacks is None else tuple(attacks)
        self._given = spec
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> Report:
        """Try every attack. Raises EnvironmentUnavailable where the kind does not start."""
        async with Bait(state=self._around.state, identity=self._around.identity) as bait:
            try:
                async with asyncio.TaskGroup() as group:
                    stages = [group.create_task(self._stage(where, bait)) for where in TOGETHER]
            except BaseExceptionGroup as errors:
                known, others = errors.split(PatchyardError)
                if known is None or others is not None:
                    raise
                raise known.exceptions[0] from None
            rulings = [ruling for stage in stages for ruling in stage.result()]
            for where in AFTERWARDS:
                rulings += await self._stage(where, bait)
        by_name = {ruling.attack: ruling for ruling in rulings}
        return Report(
            kind=self._adapter.kind,
            rulings=tuple(by_name[attack.name] for attack in self._attacks),
        )

    async def _stage(self, where: Where, bait: Bait) -> list[Ruling]:
        """Try the attacks that belong to one kind of place."""
        attacks = [attack for attack in self._attacks if attack.where is where]
        work = {
            Where.BOUNDED: self._bounded,
            Where.ENDING: self._ending,
            Where.ENGINE: self._forged,
            Where.TREE: self._trees,
        }.get(where, self._working)
        armed = [attack for attack in self._attacks if attack.where is Where.CHECKOUT]
        if not attacks and not (where is Where.TREE and armed):
            return []
        return await work(attacks, bait)

    async def _working(self, attacks: Sequence[Attack], bait: Bait) -> list[Ruling]:
        """Try them beside each other; one that did not begin as the place broke gets its own."""
        async with self._opened(bait, attacks[0].where) as place:
            tried = (self._one(attack, place, bait) for attack in attacks)
            found = await asyncio.gather(*tried)
        cut = {ruling.attack for ruling, was_cut in found if was_cut}
        alone = [await self._alone(each, bait) for each in attacks if each.name in cut]
        return [*(ruling for ruling, was_cut in found if not was_cut), *alone]

    async def _alone(self, attack: Attack, bait: Bait) -> Ruling:
        """Give it a place of its own; one that breaks all the same is replaced once."""
        for attempt in range(1, ATTEMPTS_ALONE + 1):
            name = f"{attack.name}-{attempt}"
            async with self._opened(bait, attack.where, name=name) as place:
                ruling, was_cut = await self._one(attack, place, bait)
            if not was_cut:
                break
        return ruling

    async def _bounded(self, attacks: Sequence[Attack], bait: Bait) -> list[Ruling]:
        """Give each a place of its own: it may take that with it."""
        rulings = []
        for attack in attacks:
            async with self._opened(bait, attack.where, name=attack.name) as place:
                ruling, _ = await self._one(attack, place, bait)
                rulings.append(ruling)
        return rulings

    async def _ending(self, attacks: Sequence[Attack], bait: Bait) -> list[Ruling]:
        runs = []
        async with self._opened(bait, Where.ENDING) as place:
            for attack in attacks:
                scene = await self._scene(attack, place, bait, is_control=False)
                runs.append(await self._inside(attack, place, scene))
        rulings = []
        for attack, run in zip(attacks, runs, strict=True):
            control = await self._control(attack, place, bait)
            rulings.append(await self._judged(attack, run, control))
        return rulings

    async def _forged(self, attacks: Sequence[Attack], bait: Bait) -> list[Ruling]:
        """Play them against the engine's own client."""
        rulings = []
        workspace = bait.open_folder(bait.folder / Where.ENGINE)
        for attack in attacks:
            runs = []
            for is_control in (False, True):
                scene = await bait.scene(
                    attack, root=workspace, inside=str(workspace), is_control=is_control
                )
                runs.append(await forge(attack, scene))
            rulings.append(await self._judged(attack, *runs))
        return rulings

    async def _trees(self, attacks: Sequence[Attack], bait: Bait) -> list[Ruling]:
        """Arrange all in one workspace of the engine's, then let the engine carry it."""
        checkout = Checkout(self._around.ground, bait)
        await checkout.prepare()
        armed = [attack for attack in self._attacks if attack.where is Where.CHECKOUT]
        runs = [(attack, await checkout.arm(attack)) for attack in armed]
        async with checkout.workspace(self._around.new_id) as tree:
            target = str(checkout.repository)
            async with self._opened(bait, Where.TREE, root=tree.root, target=target) as place:
                for attack in attacks:
                    scene = await checkout.scene(attack, tree.root, inside=place.target)
                    runs.append((attack, await self._inside(attack, place, scene)))
            for attack, run in runs:
                if attack.script == "through_link":
                    checkout.lay_way(run.scene, checkout.repository)
            await tree.judge([run for _, run in runs])
            tried = (self._careless(attack, checkout) for attack, _ in runs)
            controls = await asyncio.gather(*tried)
            pairs = zip(runs, controls, strict=True)  # judged while the tree is still there
            return [await self._judged(attack, run, control) for (attack, run), control in pairs]

    async def _careless(self, attack: Attack, checkout: Checkout) -> Run:
        async with self._slots:
            return await checkout.control(attack)

    async def _one(self, attack: Attack, place: Place, bait: Bait) -> tuple[Ruling, bool]:
        """Try one inside and as a control, and judge at once; True: the place broke before it."""
        refused = without_root(attack)
        if refused is not None:
            return refused, False
        async with self._slots:
            scene = await self._scene(attack, place, bait, is_control=False)
            inside, control = await asyncio.gather(
                self._inside(attack, place, scene), self._control(attack, place, bait)
            )
            is_cut = inside.is_broken and not inside.has_begun
            return await self._judged(attack, inside, control), is_cut

    async def _inside(self, attack: Attack, place: Place, scene: Scene) -> Run:
        """Run it; of a place that broke it notes how it ended, where the kind can tell."""
        run = await place.inside.run(attack, scene)
        if run.is_broken and (health := await health_at_end(self._adapter, place.handle)):
            run.ending = health.ending
        return run

    async def _control(self, attack: Attack, place: Place, bait: Bait) -> Run:
        scene = await self._scene(attack, place, bait, is_control=True)
        return await run_control(attack, scene, identity=self._around.identity)

    async def _scene(self, attack: Attack, place: Place, bait: Bait, *, is_control: bool) -> Scene:
        root = place.unprotected if is_control else place.workspace
        shown = str(place.unprotected) if is_control else place.target
        scene = await bait.scene(attack, root=root, inside=shown, is_control=is_control)
        scene.given = {**scene.given, "toolbox_socket": place.socket}
        return scene

    async def _judged(self, attack: Attack, inside: Run, control: Run) -> Ruling:
        """Judge it, and let go of what it had."""
        walls = (self._given and self._given.carries) or self._adapter.kind
        known = known_of(walls, self._given.runtime if self._given else "")
        ruling = judge(attack, walls, inside, control, known=known)
        for run in (inside, control):
            if run.scene.victim is not None:
                await run.scene.victim.end()
            end_processes_of(run.scene.token)
        return ruling

    @contextlib.asynccontextmanager
    async def _opened(
        self,
        bait: Bait,
        where: Where,
        *,
        name: str = "",
        root: Path | None = None,
        target: str = "",
    ) -> AsyncIterator[Place]:
        """Start an environment; it has ended afterwards."""
        name = name or str(where)
        root = root or bait.open_folder(bait.folder / name)
        unprotected = bait.open_folder(bait.folder / f"{name}-unprotected")
        async with self._spec(root, target or str(root), where) as spec:
            handle = await self._adapter.start(spec)
            try:
                toolbox = await self._adapter.attach(handle)
                socket = self._around.runtime / handle.environment_id
                yield Place(
                    inside=Inside(toolbox, self._around.new_id),
                    handle=handle,
                    workspace=root,
                    target=handle.workspace_path,
                    unprotected=unprotected,
                    socket=str(socket / str(handle.details.get("socket", ""))),
                )
                with contextlib.suppress(EnvironmentBroken):
                    await toolbox.close()
            finally:
                await self._adapter.end(handle)

    @contextlib.asynccontextmanager
    async def _spec(self, root: Path, target: str, where: Where) -> AsyncIterator[EnvironmentSpec]:
        is_writable = where is not Where.PLANNING
        workspace = Mount(source=str(root), target=target, is_writable=is_writable)
        spec = EnvironmentSpec(plan_id="", purpose=PURPOSE, workspace=workspace)
        adapter: Any = self._adapter
        limits = BOUNDS if where is Where.BOUNDED else Limits()
        async with contextlib.AsyncExitStack() as stack:
            if self._given is not None:
                spec = replace(self._given, workspace=workspace)
            elif isinstance(adapter, Trying):
                spec = await stack.enter_async_context(adapter.trial(workspace))
            yield replace(spec, purpose=PURPOSE, limits=limits)


__all__ = ["AFTERWARDS", "AT_ONCE", "PURPOSE", "TOGETHER", "Place", "Prober", "Surroundings"]
