"""Images of devcontainers: built of the base's files, features on top; what is there is taken."""

import hashlib
import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from posixpath import dirname
from typing import Any

from patchyard.contracts.environment import Building, Furnished
from patchyard.contracts.trees import Trees
from patchyard.domain.changeset import Base
from patchyard.domain.devcontainer import Build, Devcontainer, without_effect
from patchyard.domain.dockerfile import OWN_IMAGE, require_others
from patchyard.domain.environment import Limits
from patchyard.domain.errors import EnvironmentUnavailable, UsageError
from patchyard.domain.features import HOME, parse_metadata, weakening_in
from patchyard.domain.retention import BUILD

Announce = Callable[[str], Awaitable[None]]


class Images:
    """Has the image of one devcontainer of a base made, where it is not there yet."""

    def __init__(
        self,
        trees: Trees,
        base: Base,
        environment: Building,
        *,
        resource: str,
        limits: Limits,
        announce: Announce,
    ) -> None:
        self._trees = trees
        self._base = base
        self._environment = environment
        self._resource = resource
        self._limits = limits
        self._announce = announce  # told what is done, and what comes of it

    async def made(self, own: Devcontainer, image: str) -> str:
        """Return the name of the image of `own`, which is `image` where it says nothing else.

        Raises EnvironmentUnavailable where it cannot be had.
        """
        if own.build is not None:
            image = await self._built(own.build, is_trusted=own.is_trusted)
        elif image == own.image:
            require_others(image)  # a repository's word
        return image if own.extension is None else await self._extended(own, image)

    async def metadata(self, image: str) -> Sequence[Mapping[str, Any]]:
        """Return what the features in an image say. Raises EnvironmentUnavailable."""
        try:
            return parse_metadata(await self._environment.metadata(image))
        except UsageError as error:
            raise EnvironmentUnavailable(error.message, hint="build it anew") from error

    async def _built(self, build: Build, *, is_trusted: bool) -> str:
        image = image_name(await self._trees.folder(self._base, build.context), asdict(build))
        if not await self._environment.has_image(image):
            await self._announce(f"building {self._resource} by {build.dockerfile}")
            with tempfile.TemporaryDirectory(prefix=building(os.getpid())) as folder:
                archive = Path(folder) / "context.tar"
                await self._trees.archive(self._base, build.context, archive)
                await self._environment.build(
                    image,
                    build,
                    archive,
                    resource=self._resource,
                    limits=self._limits,
                    is_trusted=is_trusted,
                )
        return image

    async def _extended(self, own: Devcontainer, on: str) -> str:
        """Return the image `on` with features, by all that they are made of."""
        assert own.extension is not None  # noqa: S101 - said by the caller
        assert isinstance(self._environment, Furnished)  # noqa: S101 - the only one that builds
        has_home = bool(own.extension.folders) or dirname(own.path).startswith(HOME)
        tree = await self._trees.folder(self._base, HOME) if has_home else ""
        known = await self._environment.programs(self._base.repository, image=on)
        image = image_name(tree, {"on": dict(known), "features": asdict(own.extension)})
        if not await self._environment.has_image(image):
            names = ", ".join(own.features)
            await self._announce(f"building {self._resource} by the features {names}")
            with tempfile.TemporaryDirectory(prefix=building(os.getpid())) as folder:
                archive = Path(folder) / "features.tar" if has_home else None
                if archive is not None:
                    await self._trees.archive(self._base, HOME, archive)
                await self._environment.extend(
                    image, own, archive, on=on, resource=self._resource, limits=self._limits
                )
            asked = weakening_in(await self.metadata(image))  # of fetched ones it is known only now
            unsaid = [each for each in asked if each not in own.passed_over]
            if unsaid:
                await self._announce(f"{own.path}: {without_effect(unsaid)}")
        return image


def building(pid: int) -> str:
    """Return how the folders begin that builds of a process need: so the janitor knows its."""
    return f"{BUILD}{pid}-"


def image_name(context: str, made_by: Mapping[str, Any]) -> str:
    """Return the name of the image that is made of a context, by the name of its tree."""
    text = json.dumps([context, made_by], sort_keys=True)
    return f"{OWN_IMAGE}:{hashlib.sha256(text.encode()).hexdigest()[:48]}"


__all__ = ["Announce", "Images", "building", "image_name"]
