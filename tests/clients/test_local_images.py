"""Names of images, looked at before they stand in an address of a container engine."""

import pytest

from patchyard.clients.docker import ContainerEngine
from patchyard.clients.local_images import as_reference
from patchyard.domain.errors import EnvironmentUnavailable

DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    "name",
    [
        *("", "debian", "debian:12", "house/x__y:v1.0-a_b", "registry.example:5000/a/b@" + DIGEST),
        *("Registry.example/a", "localhost/a", DIGEST, "0123abcdef"),
    ],
)
def test_a_name_of_an_image_is_taken(name: str) -> None:
    assert as_reference(name) == name


@pytest.mark.anyio
@pytest.mark.parametrize(
    "name",
    [
        *("house/", "/house", "a//b", "a/../../containers/x", "a/./b", "..", ".a", "-a"),
        *("a b", "a\nb", "a?b", "a#b", "a%2e", "ä", "a" * 600),
    ],
)
async def test_what_can_be_no_image_is_said_and_not_asked_for(name: str) -> None:
    engine = ContainerEngine(None, "/run/docker.sock")  # a question would fail otherwise
    for asked in (engine.image(name), engine.has_image(name), engine.known_image(name)):
        with pytest.raises(EnvironmentUnavailable, match="is no name of an image") as refused:
            await asked
        assert "NAME:TAG" in refused.value.hint
