"""Images of devcontainers, by an environment that builds nothing and remembers what it is asked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from patchyard.contracts.environment import Building
from patchyard.contracts.trees import Trees
from patchyard.domain.changeset import Base
from patchyard.domain.devcontainer import Devcontainer
from patchyard.domain.environment import Limits
from patchyard.domain.errors import EnvironmentUnavailable
from patchyard.domain.features import Extension
from patchyard.engine.images import Images

pytestmark = pytest.mark.anyio

FETCHED = Devcontainer(
    path=".devcontainer.json",
    features=("registry.example/x/go:1",),
    extension=Extension(text='{"features": {"registry.example/x/go:1": {}}}'),
    passed_over=("init of ./own",),
)
BASE = Base(tree="t", commit="c", repository="/src/shop", branch="main", store="")


class Builder:
    """See contracts.environment.Building."""

    def __init__(self, metadata: str) -> None:
        self.said = metadata
        self.asked: list[tuple[str, Path | None]] = []

    async def has_image(self, image: str) -> bool:
        return image in [name for name, _ in self.asked]

    async def programs(self, checkout: str, *, image: str = "") -> Mapping[str, str]:
        return {"image": f"digest of {image} for {checkout}"}

    async def build(self, *words: Any, **further: Any) -> None:
        raise NotImplementedError

    async def extend(
        self, image: str, own: Devcontainer, archive: Path | None, *, on: str, **further: Any
    ) -> None:
        assert (own, on, set(further)) == (FETCHED, "base", {"resource", "limits"})
        self.asked.append((image, archive))

    async def metadata(self, image: str) -> str:
        assert await self.has_image(image)
        return self.said

    async def forget_images(self, resource: str) -> tuple[str, ...]:
        raise NotImplementedError


def images(builder: Builder, told: list[str]) -> Images:
    async def announce(text: str) -> None:
        told.append(text)

    return Images(
        cast("Trees", None),  # nothing of the base is looked at
        BASE,
        cast("Building", builder),
        resource="dev",
        limits=Limits(),
        announce=announce,
    )


async def test_what_a_fetched_feature_asks_for_is_told_once_it_is_known() -> None:
    said = '[{"id": "go", "capAdd": ["SYS_PTRACE"]}, {"id": "./own", "init": true}, {}]'
    builder, told = Builder(said), list[str]()
    made = await images(builder, told).made(FETCHED, "base")
    assert builder.asked == [(made, None)]
    assert told == [
        "building dev by the features registry.example/x/go:1",
        ".devcontainer.json: capAdd of go counts for nothing here",
    ]
    assert await images(builder, told).made(FETCHED, "base") == made
    assert len(told) == 2


async def test_metadata_that_is_none_is_an_image_that_cannot_be_used() -> None:
    with pytest.raises(EnvironmentUnavailable, match=r"devcontainer\.metadata is no JSON"):
        await images(Builder("{"), []).made(FETCHED, "base")


@pytest.mark.parametrize("image", ["patchyard-devcontainer:12ab", "12ab"])
async def test_a_repository_names_no_image_that_was_built_for_another(image: str) -> None:
    own = Devcontainer(path=".devcontainer.json", image=image)
    with pytest.raises(EnvironmentUnavailable, match="none to build on"):
        await images(Builder("[]"), []).made(own, image)
