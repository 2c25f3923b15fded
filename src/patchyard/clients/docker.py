"""The Docker Engine API, by aiodocker. Errors in our words.

Only an engine of this machine, by its socket: whoever may use that socket is root there.
"""

import asyncio
import base64
import json
import os
import platform
import stat
import tarfile
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from patchyard.clients.build_log import BuildLog
from patchyard.domain.devcontainer import Build
from patchyard.domain.dockerfile import images_needed, require_own_triggers
from patchyard.domain.errors import EnvironmentUnavailable

NOT_FOUND, IN_PROGRESS = 404, 409
NO_CONNECTION = 900  # the library's own
NAMELESS = "<none>"  # some engines call an image so that has no name
LOG_LINES = 40
PATH_FACTS = "X-Docker-Container-Path-Stat"
LABEL_BUILD = "patchyard.build"
BUILD_S = 1800.0  # of one image
DOCKERFILE_BYTES = 1 << 20  # of one at most
LINKS = 16  # that lead to one
PREPROCESSED = ".in"  # by cpp(1), which includes files of this machine
ANSWER_S = 20.0  # for anything but waiting for an end
ARCHITECTURES = {"aarch64": "arm64", "armv7l": "arm", "x86_64": "amd64"}
"""How images call what the kernel calls otherwise."""
MORE_RUNTIMES = "others are set in its configuration (`runtimes` in /etc/docker/daemon.json)"
PLACES = ("/var/run/docker.sock", "{own}/docker.sock")
"""Where an engine's socket lies; `{own}` is the user's folder of run-time files."""
START_ENGINE = "start it (`systemctl start docker`), or name its socket in DOCKER_HOST"


def engine_socket(environ: Mapping[str, str]) -> str:
    """Return the path of the container engine's socket. Raises EnvironmentUnavailable."""
    named = environ.get("DOCKER_HOST", "")
    if named:
        scheme, _, path = named.partition("://")
        if scheme != "unix":
            raise EnvironmentUnavailable(
                f"DOCKER_HOST names {named}, and only an engine of this machine can be used",
                hint="set it to unix:// and the path of a socket, or unset it",
            )
        return path
    own = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    places = (each.format(own=own) for each in PLACES)
    found = next((place for place in places if _is_socket(place)), None)
    if found is None:
        raise EnvironmentUnavailable("no container engine runs here", hint=START_ENGINE)
    return found


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(Path(path).stat().st_mode)
    except OSError:
        return False


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

    async def runtimes(self) -> Sequence[str]:
        """Return the names of the runtimes it knows."""
        return sorted((await self._answer(self._api.system.info())).get("Runtimes") or ())

    async def require_runtime(self, name: str) -> None:
        """Raise EnvironmentUnavailable, with those there are, where it knows no such runtime."""
        known = await self.runtimes()
        if name not in known:
            raise EnvironmentUnavailable(
                f"the container engine knows no runtime {name!r}",
                hint=f"known: {', '.join(known)}; {MORE_RUNTIMES}",
                details={"name": name, "known": known},
            )

    async def image(self, reference: str) -> Mapping[str, Any]:
        """Return what is known of a local image.

        Raises EnvironmentUnavailable when there is none, or none that runs on this machine.
        """
        if not reference:  # its engine would take the empty name for that of the list
            raise EnvironmentUnavailable("a container needs an image", hint="name one by `--image`")
        found: Mapping[str, Any] | None = await self._found(self._api.images.inspect(reference))
        if found is None:
            raise no_image(reference)
        require_runnable(reference, found)
        return found

    async def has_image(self, reference: str) -> bool:
        """Whether there is such an image here."""
        return await self._found(self._api.images.inspect(reference)) is not None

    async def build(
        self,
        image: str,
        build: Build,
        archive: Path,
        *,
        label: str,
        memory_bytes: int,
        what: str = "",
    ) -> None:
        """Build `image` of a tar of its context, without a network and without anything of ours.

        `what` is how people call it. Raises EnvironmentUnavailable with the last that was said, and
        before anything is built for what the engine itself would fetch.
        """
        await self._require_images(build, archive)
        params = {
            "t": image,
            "dockerfile": _place_in(build),
            "networkmode": "none",
            "rm": "true",
            "forcerm": "true",
            "memory": str(memory_bytes),
            "memswap": str(memory_bytes),
            "labels": json.dumps({LABEL_BUILD: label}),
            "buildargs": json.dumps(dict(build.arguments)),
            **({"target": build.target} if build.target else {}),
        }
        name = what or build.dockerfile
        try:
            await self._answer(self._built(params, archive, name), is_bounded=False)
        except EnvironmentUnavailable as error:
            if error.message.startswith(name):
                raise
            raise EnvironmentUnavailable(
                f"{name} does not build: {error.message}", hint=error.hint
            ) from error

    async def _require_images(self, build: Build, archive: Path) -> None:
        """Refuse a build of images that are not here, for which the engine would ask around."""
        text = await asyncio.to_thread(_dockerfile, archive, build)
        for needed in images_needed(text, path=build.dockerfile, arguments=build.arguments):
            try:
                found = await self.image(needed.image)
                triggers = (found.get("Config") or {}).get("OnBuild") or ()
                require_own_triggers(triggers, image=needed.image)
            except EnvironmentUnavailable as error:
                stage = ", and its stage comes later or goes in a circle" * needed.is_stage
                raise EnvironmentUnavailable(
                    f"{build.dockerfile}:{needed.line}: {error.message}{stage}", hint=error.hint
                ) from error

    async def _built(self, params: Mapping[str, str], archive: Path, name: str) -> None:
        log = BuildLog(name)
        with archive.open("rb") as data:
            async with (
                asyncio.timeout(BUILD_S),
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
                    async for line in response.content:
                        log.take(line)
                finally:
                    response.close()  # the library leaves what is not read to its end open

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

    async def inspect(self, name: str) -> Mapping[str, Any] | None:
        """Return all that the engine knows of a container; None when there is none."""
        found: Mapping[str, Any] | None = await self._found(self._of(name).show())
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
            return str(json.loads(base64.b64decode(facts)).get("linkTarget") or "")

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

        try:
            async with asyncio.timeout(ANSWER_S if is_bounded else None):
                return await asked
        except DockerError as error:
            if error.status == NO_CONNECTION:
                raise self._silent(error) from error
            raise EnvironmentUnavailable(
                f"the container engine refused: {error.message}", hint="`agents doctor` shows more"
            ) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._silent(error) from error

    def _silent(self, error: Exception) -> EnvironmentUnavailable:
        said = str(error) or f"nothing within {ANSWER_S:g} s"
        return EnvironmentUnavailable(
            f"the container engine at {self.socket} does not answer: {said}", hint=START_ENGINE
        )


def _dockerfile(archive: Path, build: Build) -> str:
    """Return what a build's Dockerfile says; links are followed within the context."""
    name = _place_in(build)
    if name.endswith(PREPROCESSED):
        raise _no_dockerfile(build, f"Podman has files named *{PREPROCESSED} preprocessed first")
    with tarfile.open(archive) as files:
        for _ in range(LINKS):
            try:
                found = files.getmember(name)
            except KeyError as error:
                raise _no_dockerfile(build, f"there is no file {name} in the context") from error
            if not found.issym():
                data = files.extractfile(found)
                if data is None:
                    raise _no_dockerfile(build, f"{name} is no file")
                if found.size > DOCKERFILE_BYTES:
                    raise _no_dockerfile(build, f"it has more than {DOCKERFILE_BYTES} bytes")
                return data.read().decode("utf-8", "surrogateescape")
            if ".." in found.linkname.lstrip("./").split("/"):  # behind what may be a link itself
                raise _no_dockerfile(build, f"the link {name} turns back on its way")
            name = normpath(join(dirname(name), found.linkname))
    raise _no_dockerfile(build, "its links go in a circle")


def _no_dockerfile(build: Build, why: str) -> EnvironmentUnavailable:
    return EnvironmentUnavailable(
        f"{build.dockerfile} cannot be read: {why}", hint="commit it, or name another `dockerfile`"
    )


def _place_in(build: Build) -> str:
    """Where the Dockerfile lies in the context."""
    return relpath(build.dockerfile, build.context or ".")


def require_runnable(reference: str, image: Mapping[str, Any]) -> None:
    """Raise EnvironmentUnavailable for an image of machines unlike this one."""
    own = ARCHITECTURES.get(platform.machine(), platform.machine())
    made_for = [
        str(image.get(key) or wanted) for key, wanted in (("Os", "linux"), ("Architecture", own))
    ]
    if made_for != ["linux", own]:
        raise EnvironmentUnavailable(
            f"the image {reference!r} is for {'/'.join(made_for)}, and this machine is linux/{own}",
            hint=f"take the image that is made for linux/{own}",
        )


def no_image(name: str) -> EnvironmentUnavailable:
    """Return the refusal of an image that is not there."""
    return EnvironmentUnavailable(
        f"there is no image {name!r} here", hint="pull, build or load it first"
    )


@asynccontextmanager
async def connected(socket: str) -> AsyncIterator[ContainerEngine]:
    """Yield a connection to the engine behind `socket`. Raises EnvironmentUnavailable."""
    try:
        import aiodocker  # noqa: PLC0415 - an extra, and 0.1 s
    except ImportError as error:
        raise EnvironmentUnavailable(
            "the library for container engines is not installed",
            hint="pip install 'patchyard[docker]'",
        ) from error
    api = aiodocker.Docker(url=f"unix://{socket}")
    try:
        yield ContainerEngine(api, socket)
    finally:
        await api.close()


__all__ = [
    "ARCHITECTURES",
    "MORE_RUNTIMES",
    "PLACES",
    "START_ENGINE",
    "ContainerEngine",
    "connected",
    "engine_socket",
    "no_image",
    "require_runnable",
]
