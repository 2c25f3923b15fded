"""The records of a large tree are packed while its replica rests, and are the same afterwards."""

import os
import tracemalloc
from pathlib import Path

import pytest

from patchyard.toolbox import trees
from patchyard.toolbox.trees import FILE, FOLDER, LINK, Entry, Record, Tree

NAMES = ("plain", "with blank", "\udcff", 'a"b', "ä", "line\nbreak")


def records(count: int) -> dict[str, Record]:
    kinds = (FILE, FOLDER, LINK)
    return {
        f"d/{NAMES[n % len(NAMES)]}/{n}": Record(
            Entry(kinds[n % 3], 0o644, 1_700_000_000_000_000_000 + n, n, f"{n % 7:040x}"),
            0o100644, 1_800_000_000_000_000_000 + n, n, 1_900_000_000_000_000_000, "a" * (n % 2),
        )
        for n in range(count)
    }  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(str(tmp_path))


@pytest.mark.parametrize("count", [1, 499, 500, 501, 1700])
def test_records_that_rested_are_the_same(
    tree: Tree, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "MANY", 0)
    expected = records(count)
    tree.agreed.update(expected)
    for _ in range(2):
        tree.rest()
        tree.rest()
        assert tree.agreed == expected
    assert all(type(one) is Record and type(one.entry) is Entry for one in tree.agreed.values())


def test_a_tree_of_few_files_is_left_as_it_is(tree: Tree) -> None:
    tree.agreed.update(records(10))
    before = tree.agreed["d/plain/0"]
    tree.rest()
    assert tree.agreed["d/plain/0"] is before


def test_a_large_tree_takes_little_memory_while_it_rests(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "MANY", 1000)
    tracemalloc.start()
    try:
        tree.agreed.update(records(20_000))
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        tree.rest()
        resting, most = tracemalloc.get_traced_memory()
        assert len(tree.agreed) == 20_000
    finally:
        tracemalloc.stop()
    assert resting < held / 8
    assert most < held * 1.2  # packing needs little beside them


def test_a_tree_that_rested_knows_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "MANY", 0)
    for name in ("same", "changed", "gone"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, ns=(10**18, 10**18))
    tree = Tree(str(tmp_path))
    tree.agreed.update(tree.look().changed)
    tree.rest()
    (tmp_path / "changed").write_text("otherwise")
    (tmp_path / "gone").unlink()
    look = tree.look()
    assert (set(look.changed), look.gone) == ({"changed"}, ["gone"])
