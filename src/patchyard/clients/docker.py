"""The Docker Engine API, by aiodocker. Errors in our words.

Only an engine of this machine, by its socket: whoever may use that socket is root there.
"""

import asyncio
import base64
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from patchyard.clients.build_bounds import BuildWatch, Terms, bounds_of, plain_id
from patchyard.clients.build_log import BuildLog, lines_of
from patchyard.clients.dockerfiles import place_in, read_dockerfile
from patchyard.clients.engine_groups import require_groups
from patchyard.clients.engine_sockets import PLACES, START_ENGINE, engine_socket
from patchyard.clients.engine_words import refused, silence
from patchyard.clients.local_images import as_reference, no_image, require_runnable
from patchyard.domain.devcontainer import Build
from patchyard.domain.dockerfile import images_needed, require_others, require_own_triggers
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.toolbox.wire import loaded

NOT_FOUND, IN_PROGRESS, ENGINE_FAILED = 404, 409, 500
NO_CONNECTION = 900  # the library's own
NAMELESS = "<none>"  # some engines call an image so that has no name
LOG_LINES = 40
PATH_FACTS = "X-Docker-Container-Path-Stat"
LABEL_BUILD = "patchyard.build"
BUILD_S = 1800.0  # of one image
UNBOUNDED = "Podman bounds no processes, memory or disk of a build, and this one is not trusted"
TRUST_IT = (
    "look at the Dockerfile and at all that it copies in, which trust does not cover, then `agents"
    " trust`; or use Docker's engine; or name an `image`"
)
ANSWER_S = 20.0  # for anything but waiting for an end
MORE_RUNTIMES = "others are set in its configuration (`runtimes` in /etc/docker/daemon.json)"


class EngineBusy(EnvironmentUnavailable):
    """The container engine does not answer in time: what it was asked for may come about yet."""


class ContainerEngine:
    """One connection to a container engine. Made by `connected`."""

    def __init__(self, api: Any, socket: str) -> None:
        self._api = api
        self.socket = socket

    async def version(self) -> str:
        """Return what the engine calls itself."""
        said = await self._answer(self._api.version())
        name = (said.get("Platform") or {}).get("Name") or "engine"
        return f"{name} {said.get('Version', '')}".strip()

    async def is_podman(self) -> bool:
        """Whether it is Podman, which speaks Docker's API with words of its own."""
        parts = (await self._answer(self._api.version())).get("Components") or ()
        return any("podman" in str(part.get("Name", "")).lower() for part in parts)

    async def runtimes(self) -> Mapping[str, str]:
        """Return the programs of the runtimes it knows, by name; empty where it tells none."""
        known = (await self._answer(self._api.system.info())).get("Runtimes") or {}
        return {name: str((known[name] or {}).get("path") or "") for name in sorted(known)}

    async def require_runtime(self, name: str) -> None:
        """Raise EnvironmentUnavailable, with those there are, where it knows no such runtime."""
        known = list(await self.runtimes())
        if name not in known:
            raise EnvironmentUnavailable(
                f"the container engine knows no runtime {name!r}",
                hint=f"known: {', '.join(known)}; {MORE_RUNTIMES}",
                details={"name": name, "known": known},
            )

    async def require_groups(self) -> None:
        """Raise EnvironmentUnavailable where it holds no limits; see `engine_groups`."""
        require_groups(await self._answer(self._api.system.info()))

    async def image(self, reference: str) -> Mapping[str, Any]:
        """Return what is known of a local image.

        Raises EnvironmentUnavailable when there is none, or none that runs on this machine.
        """
        if not reference:  # its engine would take the empty name for that of the list
            raise EnvironmentUnavailable("a container needs an image", hint="name one by `--image`")
        found = await self.known_image(reference)
        if found is None:
            raise no_image(reference)
        require_runnable(reference, found)
        return found

    async def has_image(self, reference: str) -> bool:
        """Whether there is such an image here."""
        return await self.known_image(reference) is not None

    async def build(self, image: str, build: Build, archive: Path, terms: Terms) -> None:
        """Build `image` of a tar of its context, without a network and without anything of ours.

        One that is there by the end keeps the name: it was made of the same.

        Raises EnvironmentUnavailable with the last that was said, at a limit, and before anything
        is built for what the engine itself would fetch or another repository built, and for an
        untrusted build that nothing would bound.
        """
        await self._require_images(build, archive, terms.on)
        await self.require_groups()
        is_podman = await self.is_podman()
        if is_podman and not terms.is_trusted:
            raise EnvironmentUnavailable(UNBOUNDED, hint=TRUST_IT)
        limits = replace(terms.limits, disk_bytes=None) if is_podman else terms.limits
        own = f"{image}-{secrets.token_hex(8)}"  # others may build it too, and end otherwise
        params = {
            **bounds_of(limits, is_podman=is_podman),
            "t": own,
            "dockerfile": place_in(build),
            "networkmode": "none",
            "rm": "true",
            "forcerm": "true",
            "labels": json.dumps({LABEL_BUILD: terms.label}),
            "buildargs": json.dumps(dict(build.arguments)),
            **({"target": build.target} if build.target else {}),
        }
        name = terms.what or build.dockerfile
        watch = BuildWatch(self, limits, name=name)
        await watch.begin()
        try:
            await self._answer(self._watched(params, archive, name, watch), is_bounded=False)
            await self._named(own, image)
        except BaseException as error:
            await self._let_go(watch, own)
            if not isinstance(error, EnvironmentUnavailable) or error.message.startswith(name):
                raise
            raise EnvironmentUnavailable(
                f"{name} does not build: {error.message}", hint=error.hint
            ) from error

    async def _named(self, own: str, image: str) -> None:
        """Give what was built as `own` the name that it is wanted by, unless that is taken."""
        if not await self.has_image(image):
            repository, _, tag = image.partition(":")
            await self._answer(self._api.images.tag(own, repository, tag=tag))
        await self.remove_image(own)

    async def _let_go(self, watch: BuildWatch, image: str) -> None:
        """Return what a failed build has left; that it failed is said by who called."""
        with contextlib.suppress(EnvironmentUnavailable):
            await self.remove_image(image)
            await watch.end()

    async def _require_images(self, build: Build, archive: Path, on: Collection[str]) -> None:
        """Refuse a build of images that are not here, for which the engine would ask around."""
        text = await asyncio.to_thread(read_dockerfile, archive, build)
        reading = partial(images_needed, path=build.dockerfile, arguments=build.arguments)
        for needed in await asyncio.to_thread(reading, text):
            try:
                found = await self.image(needed.image)
                if needed.image not in on:
                    require_others(needed.image)
                triggers = (found.get("Config") or {}).get("OnBuild") or ()
                await asyncio.to_thread(require_own_triggers, triggers, image=needed.image)
            except EnvironmentUnavailable as error:
                stage = ", and its stage comes later or goes in a circle" * needed.is_stage
                raise EnvironmentUnavailable(
                    f"{build.dockerfile}:{needed.line}: {error.message}{stage}", hint=error.hint
                ) from error

    async def _watched(
        self, params: Mapping[str, str], archive: Path, name: str, watch: BuildWatch
    ) -> None:
        """Build, and end that where the watch says so."""
        building = asyncio.ensure_future(self._built(params, archive, BuildLog(name), watch))
        holding = asyncio.ensure_future(watch.hold())
        try:
            await asyncio.wait({building, holding}, return_when=asyncio.FIRST_COMPLETED)
            if building.done():
                building.result()
            else:
                holding.result()
        finally:
            for each in (building, holding):
                each.cancel()
            await asyncio.gather(building, holding, return_exceptions=True)
        await watch.settle()

    async def _built(
        self, params: Mapping[str, str], archive: Path, log: BuildLog, watch: BuildWatch
    ) -> None:
        with archive.open("rb") as data:
            async with (
                log.within(BUILD_S),
                self._api._query(  # noqa: SLF001 - the library's `build` has no way to switch the network off
                    "build",
                    "POST",
                    params=params,
                    headers={"content-type": "application/x-tar"},
                    data=data,
                    timeout=None,
                ) as response,
            ):
                try:
                    async for line in lines_of(response.content.iter_any()):
                        watch.hear(line)
                        log.take(line)
                finally:
                    response.close()  # the library leaves what is not read to its end open

    async def known_image(self, name: str) -> Mapping[str, Any] | None:
        """Return what is known of an image, None where there is none.

        Raises EnvironmentUnavailable for what can be no image.
        """
        if not as_reference(name):
            return None
        found: Mapping[str, Any] | None = await self._found(self._api.images.inspect(name))
        return found

    async def images(self) -> Mapping[str, str]:
        """Return the ids of all images, stages of builds too, with that each was built on."""
        found = await self._answer(self._api.images.list(all="true"))
        return {plain_id(each["Id"]): plain_id(each.get("ParentId") or "") for each in found}

    async def names(self, repository: str) -> Sequence[str]:
        """Return the names of the images that are called `repository` and a tag."""
        found = await self._answer(self._api.images.list(filters={"reference": [repository]}))
        return [name for each in found for name in each.get("RepoTags") or ()]

    async def containers(self) -> frozenset[str]:
        """Return the ids of all containers, also of those that do not run."""
        found = await self._answer(self._api.containers.list(all="true"))
        return frozenset(each.id for each in found)

    async def bound(self, name: str, *, processes: int) -> bool:
        """Set how many processes a container may have; False where the engine refuses that now."""
        path, body = f"containers/{name}/update", {"PidsLimit": processes}
        asked = self._api._query_json(path, "POST", data=body)  # noqa: SLF001 - it has no such call
        passed = (NOT_FOUND, IN_PROGRESS, ENGINE_FAILED)
        return await self._found(asked, passed=passed) is not None

    async def remove_images(self, *, label: str) -> Sequence[str]:
        """Take away the names of the images that were built with `label`, and return them."""
        wanted = {"label": [f"{LABEL_BUILD}={label}"]}
        found = await self._answer(self._api.images.list(filters=wanted))
        names = [
            name
            for each in found
            for name in each.get("RepoTags") or ()
            if not name.startswith(NAMELESS)
        ]
        for name in (*names, *(each["Id"] for each in found)):  # stages of a build have no name
            await self.remove_image(name)
        return names

    async def remove_image(self, name: str) -> None:
        """Take away the name of an image, and it with its last name; one in use stays."""
        deleted = self._api.images.delete(name)
        await self._found(deleted, passed=(NOT_FOUND, IN_PROGRESS))

    async def load(self, name: str, archive: bytes) -> None:
        """Have an image, from its archive where the engine does not know it yet."""
        if await self._found(self._api.images.inspect(name)) is None:
            await self._answer(self._loaded(archive))

    async def _loaded(self, archive: bytes) -> None:
        async for _ in self._api.images.import_image(archive, stream=True):
            pass

    async def create(self, name: str, config: Mapping[str, Any]) -> None:
        """Make a container, not running yet. Raises EnvironmentUnavailable."""
        made = self._api.containers.create(dict(config), name=name)
        if await self._found(made) is None:
            raise no_image(str(config["Image"]))

    async def start(self, name: str) -> None:
        """Run it. Raises EnvironmentUnavailable."""
        await self._answer(self._of(name).start())

    async def inspect(self, name: str, *, has_size: bool = False) -> Mapping[str, Any] | None:
        """Return all that the engine knows of a container; None when there is none.

        What it has written is counted only with `has_size`, which takes its time.
        """
        asked = self._of(name).show(**({"size": "true"} if has_size else {}))
        found: Mapping[str, Any] | None = await self._found(asked)
        return found

    async def link(self, name: str, path: str) -> str | None:
        """Return where a link in a container leads; empty: no link, None: nothing is there."""
        found: str | None = await self._answer(self._linked(name, path))
        return found

    async def _linked(self, name: str, path: str) -> str | None:
        """The library itself takes a refusal without a body for broken JSON."""
        api = self._api
        where = f"{api.docker_host}/{api.api_version}/containers/{name}/archive"
        async with api.session.head(where, params={"path": path}) as answer:
            facts = answer.headers.get(PATH_FACTS, "")  # Podman has them of a link to nothing, too
            if answer.status == NOT_FOUND and not facts:
                return None
            if not facts:
                raise EnvironmentUnavailable(
                    f"the container engine does not say what lies at {path} in the container",
                    hint="take another folder for the workspace, or another image",
                )
            return str(loaded(base64.b64decode(facts)).get("linkTarget") or "")

    async def ended(self, name: str) -> None:
        """Return once its first process has ended."""
        await self._found(self._of(name).wait(), is_bounded=False)

    async def said(self, name: str) -> str:
        """Return the last of what its first process wrote."""
        lines = await self._found(self._of(name).log(stdout=True, stderr=True, tail=LOG_LINES))
        return "".join(lines or ()).strip()

    async def remove(self, name: str) -> None:
        """Kill it and take it away, with what it wrote; nothing when it is gone already."""
        removed = self._of(name).delete(force=True, v=True)
        await self._found(removed, passed=(NOT_FOUND, IN_PROGRESS))

    def _of(self, name: str) -> Any:
        return self._api.containers.container(name)

    async def _found(
        self,
        asked: Coroutine[Any, Any, Any],
        *,
        passed: Sequence[int] = (NOT_FOUND,),
        is_bounded: bool = True,
    ) -> Any:
        """Return the answer; None for a status in `passed`: there is no such thing."""
        from aiodocker import DockerError  # noqa: PLC0415 - an extra

        async def tolerant() -> Any:
            try:
                return await asked
            except DockerError as error:
                if error.status not in passed:
                    raise
                return None

        return await self._answer(tolerant(), is_bounded=is_bounded)

    async def _answer(self, asked: Coroutine[Any, Any, Any], *, is_bounded: bool = True) -> Any:
        """Return the answer. Raises what the engine says, or that it does not, in our words."""
        import aiohttp  # noqa: PLC0415 - comes with aiodocker
        from aiodocker import DockerError  # noqa: PLC0415 - an extra

        scope = asyncio.timeout(ANSWER_S if is_bounded else None)
        try:
            async with scope:
                return await asked
        except DockerError as error:
            if error.status == NO_CONNECTION:
                raise self._silent(str(error)) from error
            raise refused(str(error.message)) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if scope.expired():
                raise self._silent(f"nothing within {ANSWER_S:g} s", EngineBusy) from error
            raise self._silent(str(error) or "the connection broke off") from error

    def _silent(
        self, said: str, kind: type[EnvironmentUnavailable] = EnvironmentUnavailable
    ) -> EnvironmentUnavailable:
        return kind(silence(self.socket, said), hint=START_ENGINE)


@asynccontextmanager
async def connected(socket: str) -> AsyncIterator[ContainerEngine]:
    """Yield a connection to the engine behind `socket`. Raises EnvironmentUnavailable."""
    try:
        import aiodocker  # noqa: PLC0415 - an extra, and 0.1 s
    except ImportError as error:
        raise EnvironmentUnavailable(
            "the library for container engines is not installed",
            hint="in Patchyard's clone: pip install '.[docker]'",
        ) from error
    api = aiodocker.Docker(url=f"unix://{socket}")
    try:
        yield ContainerEngine(api, socket)
    finally:
        await api.close()


__all__ = [
    "MORE_RUNTIMES",
    "PLACES",
    "START_ENGINE",
    "ContainerEngine",
    "EngineBusy",
    "connected",
    "engine_socket",
]
