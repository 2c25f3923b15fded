"""Builds of a repository's images: within limits, and of no other repository's images."""

import io
import subprocess
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.worksite import Worksite
from images import WITHOUT_PYTHON, image
from patchyard.contracts.environment import Building
from patchyard.domain.devcontainer import Build
from patchyard.domain.environment import ExecutionEnvironment, Limits
from patchyard.domain.errors import EnvironmentUnavailable
from services import REAL_ENVIRONMENT

pytestmark = [pytest.mark.anyio, pytest.mark.service("docker")]

MIB = 1024 * 1024
TAG = "patchyard-devcontainer:limits-of-builds"
BIG = b"".join(bytes([number % 251]) * 4096 for number in range(1280))  # 5 MiB


def docker(*words: str) -> str:
    done = subprocess.run(
        ["docker", *words], check=False, capture_output=True, text=True, env=REAL_ENVIRONMENT
    )
    return done.stdout


def left_of(place: Path) -> list[str]:
    """Images and containers that know the place of a test's build: others use this engine too."""
    ids = docker("images", "--all", "--quiet").split() + docker("ps", "--all", "--quiet").split()
    found = docker("inspect", "--format", "{{.Id}} {{.Config.Env}}", *ids).splitlines()
    return [line for line in found if f"PLACE={place}]" in line]


@pytest.fixture
async def builder(tmp_path: Path) -> AsyncIterator[Building]:
    site = Worksite.make(tmp_path, {"a.txt": "a\n"})
    async with site.open() as (equipment, _):
        found = equipment.environment(ExecutionEnvironment.DEVCONTAINER)
        assert isinstance(found, Building)
        yield found
    docker("rmi", "--force", TAG)


async def build(builder: Building, place: Path, lines: str, limits: Limits) -> None:
    text = f"FROM {image(WITHOUT_PYTHON)}\n# {place}\nENV PLACE={place}\n{lines}\n"
    archive = place / "context.tar"
    with tarfile.open(archive, "w") as written:
        for name, data in (("Dockerfile", text.encode()), ("big", BIG)):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            written.addfile(entry, io.BytesIO(data))
    made = Build(dockerfile="Dockerfile")
    await builder.build(TAG, made, archive, resource="limits-test", limits=limits)


#: More than can be started before a busy machine bounds it.
FORKING = "RUN n=0; while [ $n -lt 4000 ]; do sleep 60 & n=$((n+1)); done; echo started $n"
WRITING = "RUN for n in 1 2 3 4 5 6 7 8; do cp {from_} {to}/f$n && sleep 0.2; done"


async def test_a_build_starts_no_more_processes_than_allowed(
    builder: Building, tmp_path: Path
) -> None:
    with pytest.raises(EnvironmentUnavailable, match="does not build") as refused:
        await build(builder, tmp_path, FORKING, Limits(processes=60))
    assert "fork" in str(refused.value.details) + refused.value.message


@pytest.mark.parametrize(
    "lines",
    [
        "COPY big /big\n" + WRITING.format(from_="/big", to="/root"),
        "COPY big /one\nCOPY big /two\nCOPY big /three\nCOPY big /four\nRUN sleep 1",
        "VOLUME /v\nCOPY big /big\n" + WRITING.format(from_="/big", to="/v"),
        "RUN head -c 20000000 /dev/zero > /large",
    ],
    ids=["by many files", "by copies of the context", "into a volume", "by one file"],
)
async def test_a_build_that_writes_more_than_allowed_ends_and_nothing_of_it_stays(
    builder: Building, tmp_path: Path, lines: str
) -> None:
    with pytest.raises(EnvironmentUnavailable, match="does not build"):
        await build(builder, tmp_path, lines, Limits(disk_bytes=12 * MIB))
    assert left_of(tmp_path) == []


async def test_a_build_that_fails_leaves_the_image_that_another_made_of_the_same_files(
    builder: Building, tmp_path: Path
) -> None:
    """Two plans of one base: one ends while the other is about to start from the image."""
    await build(builder, tmp_path, "RUN true", Limits())
    own = docker("images", "--quiet", TAG).strip()
    with pytest.raises(EnvironmentUnavailable, match="does not build"):
        await build(builder, tmp_path, "COPY big /big\nRUN false", Limits())
    assert docker("images", "--quiet", TAG).strip() == own != ""
    await build(builder, tmp_path, "COPY big /big\nRUN true", Limits())
    assert docker("images", "--quiet", TAG).strip() == own
    docker("rmi", "--force", TAG)
    assert left_of(tmp_path) == []


async def test_what_a_build_prints_takes_nothing_of_others_away(
    builder: Building, tmp_path: Path
) -> None:
    own = docker("images", "--quiet", image(WITHOUT_PYTHON)).strip()
    lines = f"RUN echo ' ---> {own}'; echo ' ---> Running in 0123456789ab'; false"
    with pytest.raises(EnvironmentUnavailable, match="does not build"):
        await build(builder, tmp_path, lines, Limits())
    assert docker("images", "--quiet", image(WITHOUT_PYTHON)).strip() == own


async def test_an_image_that_was_built_for_another_repository_is_none_to_build_on(
    builder: Building, tmp_path: Path
) -> None:
    await build(builder, tmp_path, "RUN echo words > /words", Limits())
    whole = docker("images", "--no-trunc", "--quiet", TAG).strip().removeprefix("sha256:")
    named = [f"FROM {name}" for name in (TAG, f"sha256:{whole}", whole[:12])]
    for line in (*named, f"COPY --from={whole[:12]} /words /taken"):
        with pytest.raises(EnvironmentUnavailable, match="none to build on"):
            await build(builder, tmp_path, line, Limits())


async def test_an_instruction_of_a_dockerfile_may_be_long(
    builder: Building, tmp_path: Path
) -> None:
    """Its engine repeats it in one line of JSON, where each `<` takes six bytes."""
    label = "LABEL " + " \\\n".join(f'l{number}="{"<" * 30_000}"' for number in range(3))
    await build(builder, tmp_path, label, Limits())
    assert docker("images", "--quiet", TAG).strip()
