"""The Docker Engine API, by aiodocker. Errors in our words.

Only an engine of this machine, by its socket: whoever may use that socket is root there.
"""

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from patchyard.domain.errors import EnvironmentUnavailable

NOT_FOUND, IN_PROGRESS = 404, 409
NO_CONNECTION = 900  # the library's own
LOG_LINES = 40
ANSWER_S = 20.0  # for anything but waiting for an end
START_ENGINE = "start it (`systemctl start docker`), or name its socket in DOCKER_HOST"


def engine_socket(environ: Mapping[str, str]) -> str:
    """Return the path of the container engine's socket. Raises EnvironmentUnavailable."""
    named = environ.get("DOCKER_HOST", "")
    if named:
        scheme, _, path = named.partition("://")
        if scheme != "unix":
            raise EnvironmentUnavailable(
                f"DOCKER_HOST names {scheme}://, and only an engine of this machine can be used",
                hint="set it to unix:// and the path of a socket, or unset it",
            )
        return path
    own = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    places = ("/var/run/docker.sock", f"{own}/docker.sock")
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

    async def image(self, reference: str) -> Mapping[str, Any]:
        """Return what is known of a local image. Raises EnvironmentUnavailable without it."""
        found: Mapping[str, Any] | None = await self._found(self._api.images.inspect(reference))
        if found is None:
            raise _no_image(reference)
        return found

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
            raise _no_image(str(config["Image"]))

    async def start(self, name: str, *, needed: str) -> None:
        """Run it. Raises EnvironmentUnavailable; where its first program is missing, naming that.

        `needed` is that program.
        """
        try:
            await self._answer(self._of(name).start())
        except EnvironmentUnavailable as error:
            if f'"{needed}"' not in error.message:
                raise
            raise EnvironmentUnavailable(
                f"the image has no {needed}, which tools run on",
                hint=f"take an image with Python 3.8 or newer as `{needed}`",
            ) from error

    async def inspect(self, name: str) -> Mapping[str, Any] | None:
        """Return all that the engine knows of a container; None when there is none."""
        found: Mapping[str, Any] | None = await self._found(self._of(name).show())
        return found

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


def _no_image(name: str) -> EnvironmentUnavailable:
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


__all__ = ["ContainerEngine", "connected", "engine_socket"]
