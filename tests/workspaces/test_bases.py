"""Our checkouts of bases: made once, whoever asks, from what is near and there."""

import asyncio
import os
import shutil
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from laboratory import Lab, bytes_below, git
from patchyard.clients import locks
from patchyard.clients.treewriter import TreeWriter
from patchyard.domain.errors import WorkFailed
from patchyard.workspaces import bases
from patchyard.workspaces.bases import run
from patchyard.workspaces.store import write_whole

pytestmark = pytest.mark.anyio


async def test_many_who_ask_at_once_get_the_same_checkout(copying: Lab) -> None:
    copying.write({"a": "a\n", "d/b": "b\n"})
    copying.commit()
    made = await asyncio.gather(*(copying.base() for _ in range(4)))
    assert len({base.tree for base in made}) == 1

    places = await asyncio.gather(*(copying.trees.checkout(made[0]) for _ in range(4)))
    histories = await asyncio.gather(*(copying.trees.history(made[0]) for _ in range(4)))

    assert len(set(places)) == len(set(histories)) == 1
    assert bytes_below(places[0]) == {"a": ("-", b"a\n"), "d/b": ("-", b"b\n")}


async def test_an_archive_is_the_tree_as_it_is_whatever_the_repository_asks_for(
    copying: Lab, tmp_path: Path
) -> None:
    asks = ".gitattributes export-ignore\nx export-ignore\ny export-subst ident\n"
    files = {".gitattributes": asks, "x": "x\n", "y": "$Format:%H$ $Id$\n"}
    copying.write(files)
    copying.commit()
    base = await copying.base()
    rules = Path(base.store, "info", "attributes")
    await asyncio.to_thread(rules.write_text, "* -text\n")  # as an earlier version left it
    for _ in range(2):
        base = await copying.base()
        await copying.trees.archive(base, "", tmp_path / "whole.tar")
        with tarfile.open(tmp_path / "whole.tar") as archive:
            found = {each.name: archive.extractfile(each) for each in archive if each.isfile()}
            read = {name: file.read().decode() for name, file in found.items() if file}
        assert read == files
        shutil.rmtree(rules.parent)


def test_threads_that_write_the_same_file_at_once_all_succeed(tmp_path: Path) -> None:
    texts = [str(number) * 50 for number in range(8)]
    with ThreadPoolExecutor(len(texts)) as pool:
        for _ in range(50):
            list(pool.map(lambda text: write_whole(tmp_path / "config", text), texts))
    assert (tmp_path / "config").read_text() in texts
    assert [path.name for path in tmp_path.iterdir()] == ["config"]


async def test_a_nearest_base_that_is_gone_is_done_without(copying: Lab) -> None:
    copying.write({f"f{number}": "x\n" for number in range(9)})
    copying.commit()
    near = await copying.trees.checkout(await copying.base())
    await asyncio.to_thread(shutil.rmtree, near)
    copying.write({"f1": "y\n"})

    made = await copying.trees.checkout(await copying.base())

    assert (made / "f1").read_text() == "y\n"
    assert (made / "f0").stat().st_nlink == 1


async def test_a_file_changed_within_a_second_has_another_time_than_before(copying: Lab) -> None:
    copying.write({f"f{number}": "x\n" for number in range(9)})
    copying.commit()
    first = await copying.trees.checkout(await copying.base())
    index = first.parent / f".{first.name}.index"
    os.utime(index, (1, 1))  # long ago: nothing has to be set apart
    copying.write({"f1": "y\n"})

    second = await copying.trees.checkout(await copying.base())

    assert (second / "f0").samefile(first / "f0")
    assert (first / "f1").read_text() == "x\n"
    assert (second / "f1").read_text() == "y\n"


async def test_a_checkout_that_takes_seconds_has_another_time_than_the_nearest(
    copying: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying.write({f"f{number}": "x\n" for number in range(9)})
    copying.commit()
    first = await copying.trees.checkout(await copying.base())
    dated = 1_000_000_000
    os.utime(first.parent / f".{first.name}.index", (dated, dated))
    copying.write({"f1": "y\n"})

    def now() -> float:
        is_written = any(made.read_text() == "y\n" for made in first.parent.glob(".*.new/f1"))
        return dated + 10.0 if is_written else dated - 1.0

    monkeypatch.setattr(bases, "time", SimpleNamespace(time=now))

    second = await copying.trees.checkout(await copying.base())

    assert int((second / "f1").stat().st_mtime) == dated + 1


async def test_the_index_of_a_large_tree_is_not_newer_than_its_files(
    copying: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bases, "LARGE_INDEX_BYTES", 1)
    copying.write({"a": "a\n"})
    copying.commit()
    base = await copying.base()
    _, root = await copying.workspace(base)

    assert git(root, "-c", "safe.directory=*", "status", "--porcelain") == ""


def test_a_program_that_fails_is_told_with_its_words() -> None:
    with pytest.raises(WorkFailed, match="No such file") as caught:
        run("cp", "/nonexistent/a", "/nonexistent/b")
    assert caught.value.details["arguments"][0] == "cp"


async def test_a_tree_that_is_not_what_the_walk_saw_is_never_handed_on(
    copying: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying.write({"a": "a\n", "b": "b\n"})
    copying.commit()
    base = await copying.base()
    ref, root = await copying.workspace(base)
    (root / "a").write_text("changed\n")
    (root / "b").unlink()
    monkeypatch.setattr(TreeWriter, "delete", lambda _writer, _path: None)

    with pytest.raises(WorkFailed, match="not the one that was seen") as caught:
        await copying.workspaces.capture(base, ref)
    assert "'b'" in caught.value.message


async def test_a_file_system_without_attributes_is_no_finding(
    copying: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    copying.write({"a": "a\n"})
    copying.commit()
    base = await copying.base()
    ref, root = await copying.workspace(base)
    (root / "a").write_text("changed\n")

    def unsupported(_descriptor: int) -> list[str]:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "listxattr", unsupported)
    changed = await copying.workspaces.capture(base, ref)
    assert changed.findings == ()


def test_a_lock_is_waited_for(copying: Lab) -> None:
    place = copying.repo.parent / "lock"
    order: list[str] = []
    waits = threading.Event()

    def second() -> None:
        waits.set()
        with locks.locked(place):
            order.append("second")

    other = threading.Thread(target=second)
    with locks.locked(place):
        other.start()
        waits.wait(60)
        order.append("first")
    other.join(60)
    assert order == ["first", "second"]


async def test_two_clones_of_one_commit_do_not_see_each_others_exclude_files(copying: Lab) -> None:
    copying.write({"a": "a\n"})
    copying.commit()
    other = copying.repo.parent / "other"
    git(copying.repo.parent, "clone", "-q", str(copying.repo), str(other))
    told = []
    for repository in (copying.repo, other):
        (repository / ".git/info").mkdir(exist_ok=True)
        (repository / ".git/info/exclude").write_text(f"of-{repository.name}\n")
        base = await copying.trees.snapshot(repository)
        inside = await asyncio.to_thread(copying.trees.synthetic_git, base)
        told.append((inside / ".git/info/exclude").read_text())
    assert ["of-repo" in told[0], "of-other" in told[1], "of-repo" in told[1]] == [
        True,
        True,
        False,
    ]
