"""Dependencies have a step of their own: setup commands, run once on the base, kept as a layer."""

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from patchyard.contracts.environment import Furnished, Listening, Toolbox
from patchyard.contracts.gateway import Passed
from patchyard.domain.changeset import Base, ChangeSet
from patchyard.domain.environment import (
    IN_PLACE,
    EnvironmentSpec,
    ExecutionEnvironment,
    Limits,
)
from patchyard.domain.errors import WorkFailed
from patchyard.domain.events import Noted, SetupFinished
from patchyard.domain.keyfiles import touched_key_files
from patchyard.domain.plan import PlanSpec
from patchyard.domain.safety import UNCONFINED
from patchyard.domain.tooling import result_from_wire
from patchyard.engine.activation import commands_of
from patchyard.engine.answers import answer_in_time, whole
from patchyard.engine.equipment import Equipment
from patchyard.engine.grounds import ground, ground_name
from patchyard.engine.images import image_name
from patchyard.engine.ledger import Ledger
from patchyard.engine.metering import Metered
from patchyard.engine.proof import gate_result
from patchyard.engine.reaching import network_bounds
from patchyard.engine.sites import (
    general_kind,
    general_site,
    general_walls,
    image_of,
    may_have_setup,
    specs_for,
)
from patchyard.engine.visits import visit
from patchyard.engine.wishing import NOWHERE

SETUP_TIMEOUT_S = 1800.0  # one setup command
WITH_OWN_PATHS = IN_PLACE | {ExecutionEnvironment.SSH}
"""Kinds where each workspace has a path of its own: a layer holds the path it was made at."""
NOT_IN_PLACE = (
    "setup commands are not run on {kind}, where every workspace has a path of its own: what the"
    " work needs has to be installed there already"
)
NOT_REACHING = (
    "setup commands are not run on {kind}, from where no package index is reached: what the work"
    " needs has to be installed there already"
)
OVER_FILES = "setup changed files of the base, which stay as they are:"
FAILED = (
    "`agents plan errors` shows its output; `--setup ''` goes without, `--setup CMD` takes another"
)
LOCK_FILES_ALONE = (
    "; it saw lock files and manifests alone (`setup_share: lockfiles`): where it needs more,"
    " `--setup-share tree`"
)
NOT_SHARED = "the layer of the lock files is not shared here: it would lie over files of the base:"
FORMAT = 2  # of the key; raised when layers are made in another way


class SetupFailed(WorkFailed):
    """A setup command failed; nothing was kept."""

    code = "setup_failed"


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What setup commands find in their workspace."""

    base: Base  # all of it, or its lock files and manifests alone
    of: Base  # the plan's
    tree: str | None = None  # a result over the base


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A layer as it was found or made."""

    key: str
    layer: Path
    is_cached: bool = False


def is_shared(spec: PlanSpec) -> bool:
    """Whether a setup layer serves every tree with the same lock files, which it is made of alone.

    Folders of the checkout that come along would be more than that.
    """
    return spec.setup_share == "lockfiles" and not spec.include


def not_run_on(spec: PlanSpec) -> str:
    """Say why setup commands are not run where this plan works: one of `WITH_OWN_PATHS`."""
    why = NOT_IN_PLACE if general_walls(spec) in UNCONFINED else NOT_REACHING
    return why.format(kind=general_kind(spec))


class Setup:
    """Makes or finds the setup layer of one plan."""

    def __init__(self, equipment: Equipment, ledger: Ledger) -> None:
        self._equipment = equipment
        self._ledger = ledger
        self._passed: Sequence[Passed] = ()
        self._commands: Sequence[str] = ()  # the plan's, and those of its devcontainer's features
        self._image = ""  # with those features

    async def layers(self, base: Base) -> Sequence[Path]:
        """Return the layers to put over the base: none, or the one of this plan's setup."""
        spec = self._ledger.state.known
        if not may_have_setup(spec):
            return []
        if general_kind(spec) in WITH_OWN_PATHS:
            await self._ledger.record(Noted(text=not_run_on(spec)))
            return []
        done = self._ledger.state.setup
        if done is not None:
            found = await self._found(done.key)
            if found is not None:
                return [found]
        if not await self._has_commands():
            return []
        made = await self._made(base, None)
        if done is not None and self._ledger.state.workspace is not None:
            made = await self._in_place(base, made, done.key)
        await self._ledger.record(
            SetupFinished(
                key=made.key,
                layer=str(made.layer),
                is_cached=made.is_cached,
                commands=tuple(self._commands),
                requests=len(self._passed),
                received=sum(one.sent for one in self._passed),
            )
        )
        return [made.layer]

    async def again(self, base: Base, changeset: ChangeSet) -> Sequence[Path] | None:
        """Return the layers of setup on the result, where the work touched what setup depends on.

        None where it did not, so that the base's own layers are right. Says so in the journal.
        """
        spec = self._ledger.state.known
        links = await self._equipment.trees.links(base, changeset)
        touched = touched_key_files(changeset.changes, links)
        if not touched or not may_have_setup(spec) or general_kind(spec) in WITH_OWN_PATHS:
            return None
        if not await self._has_commands():
            return None
        await self._ledger.record(Noted(text=f"setup for the proof: {', '.join(touched)[:500]}"))
        return [(await self._made(base, changeset.tree)).layer]

    async def _made(self, base: Base, tree: str | None) -> _Made:
        """Find or make the layer for the base, or for `tree`, a result over it."""
        if is_shared(self._ledger.state.known):
            seen = _Seen(base=await self._equipment.trees.key_base(base, tree=tree), of=base)
            made = await self._kept(seen, await self._key(seen))
            hidden = await self._equipment.trees.hidden_by(base, made.layer, tree=tree)
            if not hidden:
                return made
            await self._ledger.record(Noted(text=f"{NOT_SHARED} {', '.join(hidden)[:500]}"))
        seen = _Seen(base=base, of=base, tree=tree)
        return await self._kept(seen, await self._key(seen))

    async def _in_place(self, base: Base, made: _Made, key: str) -> _Made:
        """Return the layer at the place that the plan's workspace was made over.

        It is another one where the machine's programs changed meanwhile, or an earlier version
        named it.
        """
        return made if made.key == key else await self._kept(_Seen(base=base, of=base), key)

    async def _kept(self, seen: _Seen, key: str) -> _Made:
        layer = await self._found(key)
        if layer is not None:
            return _Made(key=key, layer=layer, is_cached=True)
        return _Made(key=key, layer=await self._run(seen, key))

    async def _found(self, key: str) -> Path | None:
        return await asyncio.to_thread(self._equipment.layers.find, key)

    async def _has_commands(self) -> bool:
        commands = await commands_of(self._equipment, self._ledger)
        self._commands, self._image = commands.setup, commands.image
        return bool(self._commands)

    async def _programs(self, base: Base) -> Mapping[str, str]:
        """What setup will find to run: a virtual environment is bound to its interpreter."""
        spec = self._ledger.state.known
        site = general_site(spec)
        environment = self._equipment.environment(site.kind)
        if not isinstance(environment, Furnished):
            return {}
        own = spec.devcontainers.get(site.resource)
        if own is not None and own.build is not None and not self._image:  # not built yet, maybe
            context = await self._equipment.trees.folder(base, own.build.context)
            return {"image": image_name(context, asdict(own.build))}
        image = self._image or image_of(site, spec)
        return await environment.programs(base.repository, image=image)

    async def _key(self, seen: _Seen) -> str:
        """Name all that setup sees: a layer made of the same things is the same layer."""
        spec = self._ledger.state.known
        base = seen.base
        facts = {
            "format": FORMAT,
            "tree": seen.tree or base.tree,
            "result": seen.tree is not None,  # else it is a tree of the user's
            "git": (base.commit, base.branch, base.excludes, base.attributes, base.conversions),
            "path": base.repository,
            "commands": self._commands,
            "place": asdict(self._place(spec)),
            "programs": await self._programs(seen.of),
        }
        text = json.dumps(facts, sort_keys=True, default=dict)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _place(self, spec: PlanSpec) -> EnvironmentSpec:
        """Return what setup's environment is started with, but for the workspace and limits."""
        site = general_site(spec)
        specs = specs_for(self._equipment, "", spec, NOWHERE, purpose="setup", is_writable=True)
        return replace(specs[site], limits=Limits())

    async def _run(self, seen: _Seen, key: str) -> Path:
        workspaces = self._equipment.workspaces
        name = ground_name(self._ledger.plan_id, "setup")
        lent = ground(
            workspaces,
            seen.base,
            name=name,
            tree=seen.tree,
            folders=self._ledger.state.known.include,
            sole=self._ledger.sole,
        )
        async with lent as workspace:
            async with visit(self._equipment, self._ledger, workspace, purpose="setup") as toolbox:
                await self._with_indexes(toolbox, self._commands)
            written = await workspaces.layer(workspace)
            if written is None:
                raise SetupFailed(
                    "this machine's workspaces cannot keep a setup layer",
                    hint="run as root, or where overlays can be mounted",
                )
            without = await self._without(seen, written)
            async with self._ledger.sole():  # another owner may be filling that tree anew
                await whole(workspaces.close(workspace))
                keep = self._equipment.layers.keep
                return await whole(asyncio.to_thread(keep, key, written, without=without))

    async def _without(self, seen: _Seen, written: Path) -> Sequence[str]:
        """Return what setup wrote over files of the tree: they stay as they are. Says so."""
        trees = self._equipment.trees
        without = await trees.hidden_by(seen.base, written, tree=seen.tree)
        if without and seen.tree is None:  # of a result, the work's own changes are among them
            text = f"{OVER_FILES} {', '.join(without)[:500]}"
            await self._ledger.record(Noted(text=text))
        return without

    async def _with_indexes(self, toolbox: Metered, commands: Sequence[str]) -> None:
        """Open the index gateways inside, if this toolbox can listen, and run the commands."""
        if not isinstance(toolbox, Listening):
            await self._each(toolbox, commands, {})
            return
        port, listener = await toolbox.listen()
        bounds = network_bounds(self._ledger.state, toolbox.handle)
        serving = self._equipment.gateways.serve_indexes(listener, port=port, bounds=bounds)
        async with serving as opened:
            toolbox.count_network(opened.counting)
            self._passed = opened.passed
            await self._each(toolbox, commands, opened.variables)

    async def _each(
        self, toolbox: Toolbox, commands: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        for command in commands:
            call_id = self._equipment.clock.new_id()
            args = {"command": command, "timeout_s": SETUP_TIMEOUT_S, "env": dict(variables)}
            payload = await answer_in_time(toolbox.call(call_id, "execute_command", args), args)
            result = gate_result(command, result_from_wire(call_id, payload))
            if not result.passed:
                is_alone = is_shared(self._ledger.state.known)
                raise SetupFailed(
                    f"the setup command `{command}` ended with {result.exit_code}",
                    hint=FAILED + (LOCK_FILES_ALONE if is_alone else ""),
                    details={"output": result.output[-4000:], **self._troubles()},
                )

    def _troubles(self) -> Mapping[str, str]:
        """What the gateways could not bring, which often is the cause."""
        failed = [f"{one.gateway} {one.name}: {one.failure}" for one in self._passed if one.failure]
        return {"gateways": "\n".join(failed[-10:])} if failed else {}


__all__ = [
    "FAILED",
    "FORMAT",
    "LOCK_FILES_ALONE",
    "NOT_IN_PLACE",
    "NOT_REACHING",
    "NOT_SHARED",
    "OVER_FILES",
    "SETUP_TIMEOUT_S",
    "WITH_OWN_PATHS",
    "Setup",
    "SetupFailed",
    "is_shared",
    "not_run_on",
]
