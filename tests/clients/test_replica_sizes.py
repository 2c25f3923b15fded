"""What takes no room travels in no time, what is too large stays; zeros that lie are no content."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients import replicas as replicas_module
from patchyard.clients.far_claims import Bounds
from patchyard.clients.path_mapping import PathMapping
from patchyard.clients.replicas import Replica
from patchyard.contracts.environment import OnOutput
from patchyard.domain.errors import EnvironmentBroken
from patchyard.toolbox.trees import digest_of
from replicas import HERE, InProcess, Listened, at_home, contents, kept

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024


def over(toolbox: Any, home: Path, far: Path) -> Replica:
    """A replica in `far` of the tree at home."""
    mapping = PathMapping(here=HERE, there=str(far))
    return Replica(toolbox, at_home(home), mapping, tenure=kept(home))


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    home, far = tmp_path / "home", tmp_path / "far"
    home.mkdir()
    far.mkdir()
    return home, far


@pytest.fixture
async def far_side(trees: tuple[Path, Path]) -> AsyncIterator[Listened]:
    toolbox = InProcess(trees[1])
    yield Listened(toolbox)
    await toolbox.close()


def hole(place: Path) -> None:
    """Make a file of 7 GB that takes next to no room."""
    with place.open("wb") as file:
        file.seek(3 * 10**9)
        file.write(b"data")
        file.truncate(7 * 10**9)


def shape(place: Path) -> tuple[int, bool, bytes]:
    """The size, whether it is mostly a hole, and what lies in its middle."""
    status = place.stat()
    with place.open("rb") as file:
        file.seek(3 * 10**9)
        return status.st_size, status.st_blocks * 512 < 10**7, file.read(4)


async def test_holes_travel_as_their_length(trees: tuple[Path, Path], far_side: Listened) -> None:
    home, far = trees
    hole(home / "from-here")
    replica = over(far_side, home, far)
    await replica.recover(takes_home=True)
    hole(far / "from-there")
    await replica.bring_home()
    assert len(far_side.asked) < 20  # and not one request for each 4 MB
    (far / "from-here").unlink()
    (far / "from-there").rename(far / "from-here")
    await replica.bring_home()
    await replica.close()
    assert shape(home / "from-here") == shape(far / "from-here") == (7 * 10**9, True, b"data")


async def test_zeros_that_lie_on_a_disk_travel_as_their_number_too(
    trees: tuple[Path, Path], far_side: Listened, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, far = trees
    characters, call = 0, far_side.call

    async def weighed(*asked: Any, **options: Any) -> Mapping[str, Any]:
        nonlocal characters
        answer = await call(*asked, **options)
        characters += len(json.dumps([asked, answer]))
        return answer

    monkeypatch.setattr(far_side, "call", weighed)
    replica = over(far_side, home, far)
    (home / "from-here").write_bytes(bytes(9 * MIB + 5))
    await replica.recover(takes_home=True)
    (far / "from-there").write_bytes(bytes(9 * MIB + 5))
    await replica.bring_home()
    await replica.close()
    assert contents(home) == contents(far)
    assert len(contents(home)) == 2
    assert characters < MIB


async def test_what_is_too_large_to_come_stays_there_and_is_named(
    trees: tuple[Path, Path], far_side: Listened
) -> None:
    home, far = trees
    bounds = Bounds(file_bytes=3000, bytes=6000)
    mapping = PathMapping(here=HERE, there=str(far))
    replica = Replica(far_side, at_home(home), mapping, bounds=bounds, tenure=kept(home))
    await replica.recover(takes_home=True)
    for path, size in {"a": 2500, "b": 2000, "c": 3001, "d": 2100}.items():
        (far / path).write_bytes(b"x" * size)
    await replica.bring_home()
    assert sorted(contents(home)) == [b"/b", b"/d"]
    assert [path for path, _ in replica.left_out] == ["a", "c"]
    await replica.bring_home()
    assert sorted(contents(home)) == [b"/a", b"/b", b"/d"]
    assert [path for path, _ in replica.left_out] == ["c"]
    await replica.close()


async def test_holes_that_end_anywhere_arrive(
    trees: tuple[Path, Path], far_side: Listened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas_module, "BATCH_BYTES", 3_000_000)
    home, far = trees
    replica = over(far_side, home, far)
    await replica.recover(takes_home=True)
    for number, places in enumerate(([0, 2 * MIB], [4096], [2 * MIB - 4, 9 * MIB], [7 * MIB], [])):
        for root in trees:
            with (root / f"{root.name}-{number}").open("wb") as file:
                for at in places:
                    file.seek(at)
                    file.write(b"data")
                file.truncate(10 * MIB + number)
    await replica.bring_home()
    await replica.bring_in()
    await replica.close()
    assert len(contents(home)) == 10
    assert contents(home) == contents(far)


class Zeros(InProcess):
    """Claims a file of zeros, and answers with another number of them."""

    def __init__(self, workspace: Path, size: int, zeros: int) -> None:
        super().__init__(workspace)
        digest = digest_of()
        digest.take(size)
        row = ["a", "f", 0o644, 0, size, digest.hexdigest()]
        look = {"look": 1, "entries": [row], "gone": [], "next": 0, "is_busy": False}
        self.said: dict[str, dict[str, Any]] = {
            "replica_look": look,
            "replica_get": {"pieces": [zeros]},
        }

    async def call(
        self,
        call_id: str,  # noqa: ARG002 - nothing is kept here
        op: str,
        args: Mapping[str, Any],  # noqa: ARG002 - it answers as it was told
        *,
        on_output: OnOutput | None = None,  # noqa: ARG002 - nothing is said
    ) -> Mapping[str, Any]:
        return {"success": True, **self.said.get(op, {})}


@pytest.mark.parametrize("zeros", [10**6 + 1, 2**80, 10**5, 0, -5])
async def test_another_number_of_zeros_never_arrives(trees: tuple[Path, Path], zeros: int) -> None:
    home, far = trees
    liar = Zeros(far, 10**6, zeros)
    replica = over(liar, home, far)
    with pytest.raises(EnvironmentBroken):
        await replica.bring_home()
    await replica.close()
    await liar.close()
    assert contents(home) == {}


async def test_the_zeros_that_were_announced_arrive(trees: tuple[Path, Path]) -> None:
    home, far = trees
    honest = Zeros(far, 10**6, 10**6)
    replica = over(honest, home, far)
    await replica.bring_home()
    await replica.close()
    await honest.close()
    assert (home / "a").read_bytes() == bytes(10**6)
