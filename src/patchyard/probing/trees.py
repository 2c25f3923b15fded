"""The attacks on capture and hand-over: all arranged in one workspace, captured once, applied each.

As a control each is arranged alone in a plain clone, and handled as a careless tool would.
"""

import asyncio
import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchyard.contracts.handover import HandOver, Order
from patchyard.contracts.trees import Trees, whole
from patchyard.contracts.workspace import Workspaces
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.errors import PatchyardError
from patchyard.probing.aftermath import Aftermath, names_below
from patchyard.probing.attack import Attack, Control, Group, Run
from patchyard.probing.bait import WAY, Bait
from patchyard.probing.running import run_control
from patchyard.probing.scene import Scene

CAPTURE_S = 30.0
GIT_S = 30.0  # for a command on a repository of our own
CARELESS_S = 1.5  # what waits longer at a pipe waits for ever
PERSON = ("-c", "user.name=Ada", "-c", "user.email=ada@example.invalid")


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The engine's own hands: what captures a tree and carries it to a checkout."""

    trees: Trees
    workspaces: Workspaces
    handover: HandOver


class Checkout:
    """A user's checkout of our own, and a workspace of the engine's over it."""

    def __init__(self, ground: Ground, bait: Bait) -> None:
        self._ground = ground
        self._bait = bait
        self.repository = bait.folder / "repository"
        self._pristine = bait.folder / "pristine"
        self._objects = bait.folder / "objects"

    async def prepare(self) -> None:
        """Make the repository, and one with objects that are nobody's business."""
        for folder in (self.repository, self._pristine, self._objects):
            await asyncio.to_thread(_make, folder)

    async def further(self, attack: Attack, canary_file: Path | None = None) -> Mapping[str, Any]:
        """Return what an attack's script is told beside the usual."""
        if attack.script != "alternates" or canary_file is None:
            return {}
        blob = await asyncio.to_thread(
            _git, self._objects, "hash-object", "-w", "--", str(canary_file)
        )
        return {"blob": blob.strip(), "objects": str(self._objects / ".git" / "objects")}

    async def arm(self, attack: Attack) -> Run:
        """Let an attack arrange the user's checkout itself, before the engine looks at it."""
        scene = await self._bait.scene(
            attack, root=self.repository, inside=str(self.repository), is_control=False
        )
        await asyncio.to_thread(_git, self.repository, "add", "--all")
        await asyncio.to_thread(_git, self.repository, "commit", "-q", "-m", "bait")
        return await run_control(attack, scene, identity=None)

    @contextlib.asynccontextmanager
    async def workspace(self, new_id: Callable[[], str]) -> AsyncIterator["Tree"]:
        """Lend a workspace of the engine's over the checkout."""
        base = await self._ground.trees.snapshot(self.repository)
        ref = await self._ground.workspaces.create(base, workspace_id=f"{new_id()}-probe")
        try:
            yield Tree(self._ground, base, ref, self.repository)
        finally:
            await self._ground.workspaces.remove(ref)

    async def scene(self, attack: Attack, root: Path, *, inside: str) -> Scene:
        """Plant the bait for one run in the workspace at `root`, which shows as `inside`."""
        scene = await self._bait.scene(attack, root=root, inside=inside, is_control=False)
        return await self._told(attack, scene)

    async def _told(self, attack: Attack, scene: Scene) -> Scene:
        further = await self.further(attack, scene.folder / "secret")
        scene.given = {**scene.given, **further, "way": f"{WAY}-{scene.token}"}
        return scene

    def lay_way(self, scene: Scene, checkout: Path) -> None:
        """Let the user's checkout have a link to the bait, where the change set has a folder."""
        (checkout / str(scene.given["way"])).symlink_to(scene.folder)

    async def control(self, attack: Attack) -> Run:
        """Arrange it in a plain clone and handle that carelessly."""
        root = self._bait.folder / f"clone-{attack.name}"
        await asyncio.to_thread(shutil.copytree, self._pristine, root)
        scene = await self._bait.scene(attack, root=root, inside=str(root), is_control=True)
        scene = await self._told(attack, scene)
        run = await run_control(attack, scene, identity=None)
        carried = self._bait.folder / f"carried-{attack.name}"
        await asyncio.to_thread(shutil.copytree, self._pristine, carried)
        self.lay_way(scene, carried)
        scene.given = {**scene.given, "carried": str(carried)}
        handle = "careless" if attack.group is Group.GIT else "naive_copy"
        careless = replace(
            attack, script=handle, control=Control.PLAIN, timeout_s=_patience(attack)
        )
        after = await run_control(careless, scene, identity=None)
        run.text += after.text
        run.aftermath = Aftermath(
            checkout=carried,
            is_hung="its time was up" in after.text,
            unseen=names_below(carried, scene.token),
        )
        return run


class Tree:
    """One workspace of the engine's, and what becomes of what is arranged there."""

    def __init__(self, ground: Ground, base: Base, ref: Any, repository: Path) -> None:
        self._ground = ground
        self._base = base
        self._repository = repository
        self._ref = ref
        self.root = Path(ref.root)

    async def judge(self, runs: Sequence[Run]) -> None:
        """Capture it, hand each run's part over, and note what came of it with each."""
        capture = self._ground.workspaces.capture(self._base, self._ref)
        try:
            async with asyncio.timeout(CAPTURE_S):
                changeset = await capture
                patch = await whole(self._ground.trees.diff(self._base, changeset))
        except TimeoutError:
            for run in runs:
                run.aftermath = Aftermath(checkout=self._repository, is_hung=True)
            return
        for part in _parts(runs):
            await self._hand_over(changeset, part, allow=())
        unseen = [*itertools.chain(*(names_below(self._repository, r.scene.token) for r in runs))]
        for part in _parts(runs):
            await self._hand_over(changeset, part, allow=("**",))
        for run in runs:
            run.aftermath = Aftermath(
                checkout=self._repository,
                findings=changeset.findings,
                patch=patch,
                borrowed=await self._borrowed(run.scene),
                unseen=unseen,
            )

    async def _hand_over(
        self, changeset: ChangeSet, runs: Sequence[Run], *, allow: tuple[str, ...]
    ) -> None:
        """Apply what these runs changed, as one who does not look would."""
        own = {str(name) for r in runs for name in (r.scene.token, r.scene.given.get("way"))}
        paths = [each.path for each in changeset.changes if each.path.split("/")[0] in own]
        order = Order(to="worktree", name="", message="", paths=tuple(paths), allow_paths=allow)
        if paths:
            with contextlib.suppress(PatchyardError):  # refused: that is what it is there for
                await self._apply(changeset, order)

    async def _apply(self, changeset: ChangeSet, order: Order) -> None:
        handover = self._ground.handover
        async with handover.turn(self._base):
            intent = await handover.plan(self._base, changeset, order)
            await handover.carry_out(self._base, changeset, order, intent)

    async def _borrowed(self, scene: Scene) -> bytes:
        """Return what the engine's store says to an object that only the bait has."""
        if "blob" not in scene.given:
            return b""
        with contextlib.suppress(PatchyardError):
            return await self._ground.trees.blob(self._base, str(scene.given["blob"]))
        return b""


def _parts(runs: Sequence[Run]) -> Sequence[Sequence[Run]]:
    """Return the runs that are handed over together: a refusal of one may spare the others."""
    traps = [run for run in runs if run.scene.group is Group.GIT]
    return [traps, *([run] for run in runs if run.scene.group is not Group.GIT)]


def _patience(attack: Attack) -> float:
    return CARELESS_S if attack.script == "fifo" else 2 * attack.timeout_s


def _make(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)
    _git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    _git(folder, "add", "--all")
    _git(folder, "commit", "-q", "-m", "start")


def _git(folder: Path, *words: str) -> str:
    """Run git on a repository of our own, as a user would, with no settings of anybody's."""
    variables = {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.devnull}
    variables["GIT_CONFIG_NOSYSTEM"] = "1"
    done = subprocess.run(
        ["git", *PERSON, "-c", "safe.directory=*", *words],
        cwd=folder,
        env=variables,
        check=True,
        capture_output=True,
        timeout=GIT_S,
    )
    return done.stdout.decode()


__all__ = ["CAPTURE_S", "CARELESS_S", "Checkout", "Ground", "Tree"]
