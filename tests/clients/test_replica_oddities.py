"""What honest trees hold that cannot travel as it is, and what a kill leaves at home."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients.path_mapping import PathMapping
from patchyard.clients.replicas import Replica
from patchyard.toolbox import twins
from patchyard.toolbox.footing import STAGED, STAGED_NAME
from patchyard.toolbox.trees import LATEST_NS, OURS
from replicas import HERE, InProcess, at_home, contents, kept

pytestmark = pytest.mark.anyio
SECOND = 10**9


class KilledError(Exception):
    """The engine was killed here."""


class Pair:
    """Two trees, and a replica of the one in the other."""

    def __init__(self, folder: Path) -> None:
        self.home, self.far = folder / "home", folder / "far"
        self.home.mkdir()
        self.far.mkdir()
        self.toolbox = InProcess(self.far)

    async def attached(self) -> Replica:
        mapping = PathMapping(here=HERE, there=str(self.far))
        replica = Replica(self.toolbox, at_home(self.home), mapping, tenure=kept(self.home))
        await replica.recover(takes_home=True)
        return replica


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    pair = Pair(tmp_path)
    yield pair
    await pair.toolbox.close()


@pytest.mark.parametrize("is_nameless", [True, False])
async def test_a_file_that_a_killed_engine_was_bringing_home_goes_with_the_next(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, is_nameless: bool
) -> None:
    killed = await pair.attached()
    (pair.far / "sub").mkdir()
    (pair.far / "sub/a").write_text("one\n")

    def kill(*_: Any, **__: Any) -> None:
        raise KilledError

    monkeypatch.setattr(os, "replace", kill)
    monkeypatch.setattr(twins._Coming, "close", lambda _: None)  # nobody tidies up any more
    if not is_nameless:
        monkeypatch.setattr(twins, "NAMELESS", os.O_WRONLY)  # which no folder can be opened for
    with pytest.raises(KilledError):
        await killed.bring_home()
    monkeypatch.undo()
    left = {os.fsencode(each.name) for each in pair.home.iterdir()} - {b"sub"}
    assert [STAGED_NAME.fullmatch(name) is not None for name in left] == [True]

    again = await pair.attached()
    await again.close()
    await killed.close()
    assert contents(pair.home) == contents(pair.far)
    assert (pair.home / "sub/a").read_text() == "one\n"


async def test_names_like_ours_stay_where_they_are_and_the_rest_comes(pair: Pair) -> None:
    replica = await pair.attached()
    odd = [f"{STAGED.decode()}{name}" for name in ("a-file", "b-link", "c-folder")]
    (pair.far / odd[0]).touch()
    (pair.far / odd[1]).symlink_to("new")
    (pair.far / odd[2]).mkdir()
    (pair.far / odd[2] / "inner").touch()
    (pair.far / "new").write_text("content\n")
    await replica.bring_home()
    assert sorted(replica.left_out) == [(name, OURS) for name in odd]
    assert contents(pair.home) == {b"/new": contents(pair.far)[b"/new"]}

    (pair.home / odd[0]).write_text("of the user's own\n")
    (pair.home / "second").touch()
    await replica.bring_in()
    await replica.close()
    again = await pair.attached()
    await again.close()
    assert (pair.far / "second").exists()
    assert (pair.home / odd[0]).read_text() == "of the user's own\n"
    assert (pair.far / odd[0]).read_text() == ""


@pytest.mark.parametrize("year", [1600, 1902, 1969, 2117, 2200, 2400])
async def test_a_time_far_off_travels_as_well_as_it_can_both_ways(pair: Pair, year: int) -> None:
    replica = await pair.attached()
    at_ns = (year - 1970) * 31_556_952 * SECOND + 7
    (pair.far / "there").write_text("one\n")
    (pair.home / "here").write_text("two\n")
    for made in (pair.far / "there", pair.home / "here"):
        os.utime(made, ns=(at_ns, at_ns))
    kept_ns = (pair.home / "here").stat().st_mtime_ns  # as this file system has it
    await replica.bring_home()
    await replica.bring_in()
    await replica.close()
    again = await pair.attached()
    await again.close()
    assert contents(pair.home) == contents(pair.far)
    found = [(pair.home / "there").stat().st_mtime_ns, (pair.far / "here").stat().st_mtime_ns]
    assert found == [max(-LATEST_NS, min(kept_ns, LATEST_NS))] * 2
