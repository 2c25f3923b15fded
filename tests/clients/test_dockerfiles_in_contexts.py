"""The Dockerfile that is read before a build is the one that the container engine takes."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from patchyard.clients.build_bounds import Terms
from patchyard.clients.docker import ContainerEngine
from patchyard.domain.devcontainer import Build
from patchyard.domain.dockerfile import DOCKERFILE_BYTES
from patchyard.domain.environment import Limits
from patchyard.domain.errors import EnvironmentUnavailable

pytestmark = pytest.mark.anyio

PLAIN = "FROM scratch\n"


def context(place: Path, files: Mapping[str, str], links: Mapping[str, str]) -> Path:
    """Write the tar of a build's context."""
    with tarfile.open(place, "w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    return place


@pytest.mark.parametrize(
    ("name", "files", "links", "words"),
    [
        (
            "D",
            {"good": PLAIN, "b/good": "FROM x\n", "b/c/d": ""},
            {"a": "b/c", "D": "./a/../good"},
            "the link D turns back on its way",
        ),
        ("D.in", {"D.in": PLAIN}, {}, "Podman has files named *.in preprocessed"),
        ("D", {"D": PLAIN + "#" * DOCKERFILE_BYTES}, {}, f"more than {DOCKERFILE_BYTES} bytes"),
        ("b/D", {"b/d/e": "FROM x y\n"}, {"b/D": "../b/f", "b/f": "d/e"}, "b/D:1: what FROM takes"),
    ],
    ids=["by a link through a link", "preprocessed", "too long", "by plain links"],
)
async def test_one_that_the_engine_could_read_otherwise_is_refused(
    tmp_path: Path, name: str, files: Mapping[str, str], links: Mapping[str, str], words: str
) -> None:
    archive = context(tmp_path / "context.tar", files, links)
    engine = ContainerEngine(None, "")  # nobody is asked
    with pytest.raises(EnvironmentUnavailable) as refused:
        await engine.build("i", Build(dockerfile=name), archive, Terms(label="l", limits=Limits()))
    assert words in refused.value.message
