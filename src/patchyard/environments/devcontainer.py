"""The `devcontainer` kind: a container as its repository describes it, behind our own walls.

Its image is one that is there, or built of the base's files; features come on top; its lifecycle
commands run inside.
"""

import asyncio
import contextlib
import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from patchyard.clients.build_bounds import Terms
from patchyard.clients.devcontainers_cli import (
    METADATA_LABEL,
    Extending,
    Step,
    packed,
    steps_for,
)
from patchyard.clients.docker import ContainerEngine, connected, engine_socket
from patchyard.clients.removal import remove_tree
from patchyard.contracts.environment import Toolbox
from patchyard.domain.devcontainer import Build, Devcontainer
from patchyard.domain.environment import (
    EnvironmentHandle,
    EnvironmentSpec,
    ExecutionEnvironment,
    Limits,
)
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable
from patchyard.engine.answers import answer_in_time
from patchyard.engine.ends import health_at_end
from patchyard.engine.images import building
from patchyard.engine.parting import in_time
from patchyard.environments.container import ContainerEnvironment

COMMAND_S = 600.0  # of one lifecycle command
OUTPUT_CHARS = 4000
INSTALLER = "what installs the features"


class DevcontainerEnvironment(ContainerEnvironment):
    """Devcontainers of this machine's engine."""

    kind = ExecutionEnvironment.DEVCONTAINER

    async def has_image(self, image: str) -> bool:
        """See contracts.environment.Building."""
        async with connected(engine_socket(os.environ)) as engine:
            return await engine.has_image(image)

    async def build(
        self,
        image: str,
        build: Build,
        archive: Path,
        *,
        resource: str,
        limits: Limits,
        is_trusted: bool = False,
    ) -> None:
        """See contracts.environment.Building."""
        async with connected(engine_socket(os.environ)) as engine:
            terms = Terms(label=self._label(resource), limits=limits, is_trusted=is_trusted)
            await engine.build(image, build, archive, terms)

    async def extend(
        self,
        image: str,
        own: Devcontainer,
        archive: Path | None,
        *,
        on: str,
        resource: str,
        limits: Limits,
    ) -> None:
        """See contracts.environment.Building; the devcontainers CLI says how."""
        assert own.extension is not None  # noqa: S101 - said by the caller
        async with connected(engine_socket(os.environ)) as engine:
            asked = Extending(
                config=own.path,
                image=on,
                known=await engine.image(on),
                extension=own.extension,
                archive=archive,
            )
            named = building(os.getpid())
            folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=named))
            try:
                steps = await steps_for(asked, folder, os.environ)
                packing = folder / "step.tar"
                terms = Terms(
                    label=self._label(resource),
                    limits=limits,
                    is_trusted=own.is_trusted,
                    on=(on,),
                    what=INSTALLER,
                )
                await self._take(engine, image, steps, packing, terms)
            finally:  # what the CLI left may be closed folders, and links in them to anywhere
                await asyncio.to_thread(remove_tree, folder)

    async def _take(
        self,
        engine: ContainerEngine,
        image: str,
        steps: Sequence[Step],
        packing: Path,
        terms: Terms,
    ) -> None:
        """Build each step under a name of this build alone, but for the last, which is `image`."""
        own = self._station.new_id().lower()
        names = {step.tag: f"{image}-{own}-{n}" for n, step in enumerate(steps[:-1])}
        try:
            for step in steps:
                dockerfile = await asyncio.to_thread(packed, step, names, packing)
                build = Build(
                    dockerfile=dockerfile,
                    arguments={n: names.get(v, v) for n, v in step.arguments.items()},
                    target=step.target,
                )
                within = replace(terms, on=(*terms.on, *names.values()))
                await engine.build(names.get(step.tag, image), build, packing, within)
        finally:
            for name in names.values():
                await engine.remove_image(name)

    async def metadata(self, image: str) -> str:
        """See contracts.environment.Building."""
        async with connected(engine_socket(os.environ)) as engine:
            labels = (await engine.image(image))["Config"].get("Labels") or {}
        return str(labels.get(METADATA_LABEL, "[]"))

    async def forget_images(self, resource: str) -> Sequence[str]:
        """See contracts.environment.Building."""
        async with connected(engine_socket(os.environ)) as engine:
            return await engine.remove_images(label=self._label(resource))

    def _label(self, resource: str) -> str:
        """Name a resource of this installation: others may use the same engine."""
        own = hashlib.sha256(os.fsencode(self._station.runtime)).hexdigest()[:12]
        return f"{resource}@{own}"

    async def start(self, spec: EnvironmentSpec) -> EnvironmentHandle:
        """Start one and run its lifecycle commands. Raises EnvironmentUnavailable."""
        handle = await super().start(spec)
        try:
            await self._lived(handle, spec.commands)
        except BaseException:
            with contextlib.suppress(EnvironmentBroken):  # the janitor finds it again
                await in_time(self.end(handle))
            raise
        return handle

    async def _lived(self, handle: EnvironmentHandle, commands: Sequence[str]) -> None:
        """Run its lifecycle commands. Raises EnvironmentUnavailable with how it ended."""
        try:
            toolbox = await self.attach(handle)
            try:
                for number, command in enumerate(commands):
                    await _run(toolbox, f"start-{number}", command)
            finally:
                await toolbox.close()
        except EnvironmentBroken as error:
            health = await health_at_end(self, handle)
            said = "; ".join(filter(None, (error.message, health.ending if health else "")))
            raise EnvironmentUnavailable(said, hint=error.hint) from error


async def _run(toolbox: Toolbox, call_id: str, command: str) -> None:
    args = {"command": command, "timeout_s": COMMAND_S}
    result = await answer_in_time(toolbox.call(call_id, "execute_command", args), args)
    await toolbox.forget((call_id,))
    if not result.get("success"):
        said = f"{result.get('stdout', '')}{result.get('stderr', '')}".strip()
        raise EnvironmentUnavailable(
            f"the devcontainer's command `{command}` failed: {result.get('message')}",
            hint="mend it in devcontainer.json; the root is read-only, and there is no network",
            details={"output": said[-OUTPUT_CHARS:]},
        )


__all__ = ["COMMAND_S", "INSTALLER", "OUTPUT_CHARS", "DevcontainerEnvironment"]
