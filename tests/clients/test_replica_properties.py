"""Whatever is edited on either side, both trees hold the same after an exchange."""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchyard.clients.path_mapping import PathMapping
from patchyard.clients.replicas import Replica
from patchyard.contracts.environment import Toolbox
from replicas import HERE, InProcess, at_home, contents, kept

NAMES = (b"a", b"b", b"odd\xff -name", b"two\nlines")
MODES = (0o644, 0o600, 0o755, 0o400, 0o777, 0o000)
FOLDER_MODES = (0o755, 0o700, 0o555, 0o777)
TARGETS = (b"a", b"../outside", b"/proc/version", HERE.encode() + b"/sub/a", b"bro\xffken")

path = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2).map(b"/".join)
edit = st.one_of(
    st.tuples(st.just("write"), path, st.binary(max_size=40)),
    st.tuples(st.just("mkdir"), path, st.sampled_from(FOLDER_MODES)),
    st.tuples(st.just("link"), path, st.sampled_from(TARGETS)),
    st.tuples(st.just("rename"), path, path),
    st.tuples(st.just("delete"), path, st.none()),
    st.tuples(st.just("chmod"), path, st.sampled_from(MODES)),
    st.tuples(st.just("touch"), path, st.integers(0, 2**31)),
)
Edit = tuple[str, bytes, object]
rounds = st.lists(
    st.tuples(st.lists(edit, max_size=6), st.lists(edit, max_size=6)), min_size=1, max_size=5
)


def carry_out(root: Path, edits: Sequence[Edit]) -> None:
    """Do what of the edits can be done there."""
    for what, name, value in edits:
        with contextlib.suppress(OSError):  # no edit where a parent is missing, or a file is
            EDITS[what](root / os.fsdecode(name), value, root)


def _write(place: Path, value: Any, _root: Path) -> None:
    """Write a file of the tree: through a link that leads out, this machine's own would go."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(place, flags, 0o666), "wb") as file:
        file.write(value)


def _mkdir(place: Path, value: Any, _root: Path) -> None:
    place.mkdir()
    place.chmod(value)


def _link(place: Path, value: Any, root: Path) -> None:
    """A link into the workspace names it as it is there."""
    inside = value.replace(HERE.encode(), os.fsencode(root)) if root.name == "far" else value
    place.symlink_to(os.fsdecode(inside))


def _rename(place: Path, value: Any, root: Path) -> None:
    place.replace(root / os.fsdecode(value))


def _delete(place: Path, _value: Any, _root: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink()


def _chmod(place: Path, value: Any, _root: Path) -> None:
    if not place.is_symlink():
        place.chmod(value | 0o700 if place.is_dir() else value)


def _touch(place: Path, value: Any, _root: Path) -> None:
    os.utime(place, (value, value), follow_symlinks=False)


EDITS: dict[str, Callable[[Path, Any, Path], None]] = {
    "write": _write,
    "mkdir": _mkdir,
    "link": _link,
    "rename": _rename,
    "delete": _delete,
    "chmod": _chmod,
    "touch": _touch,
}


def shown(root: Path) -> dict[bytes, tuple[object, ...]]:
    """A tree with links into the workspace as the plan has them."""
    inside = os.fsencode(root)
    return {
        place: (seen[0], bytes(seen[1]).replace(inside, HERE.encode()))
        if seen[0] == "link" and isinstance(seen[1], bytes)
        else seen
        for place, seen in contents(root).items()
    }


class Trees:
    """A tree at home and one far away, empty at first."""

    def __init__(self, folder: Path) -> None:
        self.home, self.far = folder / "home", folder / "far"
        self.home.mkdir()
        self.far.mkdir()
        self.toolbox = InProcess(self.far)
        self.mapping = PathMapping(here=HERE, there=str(self.far))

    def replica(self, toolbox: Toolbox | None = None) -> Replica:
        return Replica(
            toolbox or self.toolbox, at_home(self.home), self.mapping, tenure=kept(self.home)
        )


@settings(
    max_examples=150, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(rounds=rounds)
def test_both_trees_are_equal_after_any_edits_on_either_side(
    rounds: list[tuple[list[Edit], list[Edit]]],
) -> None:
    async def exchange(trees: Trees) -> None:
        replica = trees.replica()
        try:
            await replica.recover(takes_home=True)
            for at_home, far_away in rounds:
                carry_out(trees.home, at_home)
                carry_out(trees.far, far_away)
                await replica.bring_home()
                await replica.bring_in()
                assert shown(trees.home) == shown(trees.far)
        finally:
            await replica.close()

    with tempfile.TemporaryDirectory() as folder:
        trees = Trees(Path(folder))
        try:
            asyncio.run(exchange(trees))
        finally:
            asyncio.run(trees.toolbox.close())
            _open_up(Path(folder))


def _open_up(folder: Path) -> None:
    """Let everything be deleted, whoever runs this."""
    for place, folders, _ in os.walk(folder):
        for name in folders:
            inner = Path(place, name)
            if not inner.is_symlink():
                inner.chmod(0o700)


@settings(
    max_examples=60, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(before=st.lists(edit, max_size=12), at_home=st.lists(edit, max_size=6))
def test_a_replica_nobody_remembers_is_made_equal_to_home_again(
    before: list[Edit], at_home: list[Edit]
) -> None:
    async def exchange(trees: Trees) -> None:
        carry_out(trees.home, before)
        for _ in range(2):
            replica = trees.replica()
            await replica.recover(takes_home=True)
            await replica.close()
            assert shown(trees.home) == shown(trees.far)
            carry_out(trees.home, at_home)

    with tempfile.TemporaryDirectory() as folder:
        trees = Trees(Path(folder))
        try:
            asyncio.run(exchange(trees))
        finally:
            asyncio.run(trees.toolbox.close())
            _open_up(Path(folder))
