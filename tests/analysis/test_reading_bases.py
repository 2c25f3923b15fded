"""Bases read for a task, with real git: the answer is the tree's, however it was come by."""

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients.removal import remove_tree
from patchyard.contracts.analyst import Study
from patchyard.domain.changeset import Base
from patchyard.domain.errors import PatchyardError, WorkFailed
from patchyard.workspaces import map_making, map_shares, map_store
from patchyard.workspaces.analyst import FOLDER, GUIDE_CHARS, GitAnalyst
from patchyard.workspaces.map_making import GUIDES_CHARS
from patchyard.workspaces.map_store import INDEX, KEPT, NEW, WORDS
from patchyard.workspaces.pinned import GitTrees

pytestmark = pytest.mark.anyio

TASK = "first_page() in shop/core.py is wrong"
FILES = {
    "shop/core.py": "class Shop:\n    def first_page(self): ...\n\n\ndef load_shop(): ...\n",
    "shop/one.py": "from shop.core import load_shop, Shop\n",
    "shop/two.py": "from shop.core import load_shop  # in nobody_else\n",
    "web/a.js": "function drawShop() {\n}\n",
    "tests/test_core.py": "def test_first_page():\n    load_shop()\n",
    "AGENTS.md": "Be short.\n",
    "CODEOWNERS": "* @all\nshop/ @shop\n",
}


class Place:
    """A repository and a home."""

    def __init__(self, folder: Path) -> None:
        self.repository = folder / "repo"
        self.repository.mkdir()
        identity = ["-c", "user.name=T", "-c", "user.email=t@localhost"]
        for words in (["init", "-q", "-b", "main"], ["commit", "-qm", "start", "--allow-empty"]):
            subprocess.run(["git", *identity, *words], cwd=self.repository, check=True)
        self.trees = GitTrees(folder / "home")
        self.analyst = GitAnalyst(self.trees)

    def write(self, path: str, content: str | bytes) -> None:
        place = self.repository / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)

    def move(self, path: str, to: str) -> None:
        (self.repository / path).rename(self.repository / to)

    async def base(self, files: dict[str, str] | None = None) -> Base:
        for path, content in (FILES if files is None else files).items():
            self.write(path, content)
        return await self.trees.snapshot(self.repository)

    async def study(self, base: Base, task: str = TASK, *, tokens: int = 500) -> Study:
        return await self.analyst.study(base, task, tokens=tokens)

    def kept(self, base: Base) -> Path:
        return Path(base.store).parent / FOLDER

    async def anew(self, base: Base) -> Study:
        """The study without anything that was kept."""
        remove_tree(self.kept(base))
        return await self.study(base)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def drawn(study: Study) -> list[str]:
    return [f"{each.path}:{each.line} {each.kind} {each.name}" for each in study.symbols]


async def test_a_base_is_known_by_its_files_its_owners_its_guides_and_its_map(place: Place) -> None:
    study = await place.study(await place.base())
    assert drawn(study)[0] == "shop/core.py:2 def first_page"
    assert "shop/core.py:5 def load_shop" in drawn(study)
    assert (study.context.files, study.context.test_files) == (7, 1)
    assert study.named == ("shop/core.py",)
    assert [(each.pattern, each.paths) for each in study.owners] == [
        *(("*", ()), ("shop/", ("shop/core.py",))),
    ]
    assert [(each.path, each.text) for each in study.guides] == [("AGENTS.md", "Be short.")]
    assert not study.is_cached


async def test_what_was_read_is_kept_and_answers_the_same(place: Place) -> None:
    base = await place.base()
    first = await place.study(base)
    again = await place.study(base)
    assert again.is_cached
    assert replace(again, is_cached=False) == first
    other = await place.study(base, "drawShop is slow")
    assert other.is_cached
    assert drawn(other)[0] == "web/a.js:1 function drawShop"


EDITS: dict[str, Callable[[Place], None]] = {
    "changed": lambda place: place.write("shop/one.py", "import Shop\ndef second_page(): ...\n"),
    "added": lambda place: place.write("a/new.py", "load_shop(); first_page\ndef aaa(): ...\n"),
    "gone": lambda place: (place.repository / "shop/two.py").unlink(),
    "moved": lambda place: place.move("shop/two.py", "z.py"),
    "copied": lambda place: place.write("b/again.py", FILES["shop/two.py"]),
    "now binary": lambda place: place.write("shop/two.py", b"load_shop\0"),
    "no source": lambda place: place.write("notes.txt", "load_shop"),
}


@pytest.mark.parametrize("edit", EDITS)
async def test_a_changed_tree_is_made_out_of_the_one_before(
    place: Place, edit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_making, "CHANGED", 0.5)
    before = await place.base()
    await place.study(before)
    EDITS[edit](place)
    base = await place.base({})
    read: list[str] = []
    known = map_shares.read_all

    def counted(*given: Any) -> map_shares.Read:
        read.extend(each.blob for each in given[2])
        return known(*given)

    monkeypatch.setattr(map_making, "read_all", counted)
    study = await place.study(base)
    assert len(read) <= 2
    kept = {path.suffix: path.read_bytes() for path in place.kept(base).glob(f"{base.tree}.*")}
    assert study == await place.anew(base)
    made = place.kept(base) / f"{base.tree}{INDEX}"
    assert made.read_bytes() == kept[INDEX]
    words = (place.kept(base) / f"{base.tree}{WORDS}").read_bytes()
    assert sorted(words.split()[5:]) == sorted(kept[WORDS].split()[5:])


async def test_a_file_that_could_not_be_read_and_now_can_is_read(place: Place) -> None:
    place.write("shop/bin.py", b"def spare_wheel(): ...\0")
    first = await place.study(await place.base(), "spare_wheel")
    assert first.left_out == 1
    place.write("shop/bin.py", "def spare_wheel(): ...\n")
    study = await place.study(await place.base({}), "spare_wheel")
    assert study.left_out == 0
    assert drawn(study)[0] == "shop/bin.py:1 def spare_wheel"


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda _: b"",
    "one byte": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    "another version": lambda data: data.replace(b"map 2 ", b"map 0 ", 1),
    "no header": lambda data: b"\n" + data,
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_what_is_damaged_is_made_anew(place: Place, damage: str) -> None:
    base = await place.base()
    first = await place.study(base)
    for kept in place.kept(base).iterdir():
        kept.write_bytes(DAMAGE[damage](kept.read_bytes()))
    assert await place.study(base) == first
    place.write("shop/one.py", "x = 1\n")
    for kept in place.kept(base).glob(f"*{WORDS}"):
        kept.write_bytes(DAMAGE[damage](kept.read_bytes()))
    after = await place.base({})
    assert await place.study(after) == await place.anew(after)


async def test_several_processes_read_what_one_reads(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        place.write(f"many/m{number}.py", f"def part_{number}(): load_shop; part_{number + 1}\n")
    base = await place.base()
    alone = await place.study(base)
    monkeypatch.setattr(map_shares, "ALONE", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    started: list[int] = []
    popen = subprocess.Popen

    def noted(*arguments: Any, **words: Any) -> Any:
        process = popen(*arguments, **words)
        started.append(process.pid)
        return process

    monkeypatch.setattr(subprocess, "Popen", noted)
    assert await place.anew(base) == alone
    assert len(started) >= 2


async def test_a_reader_that_fails_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    base = await place.base()
    monkeypatch.setattr(map_shares, "ALONE", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(map_shares, "PROGRAM", "raise SystemExit(3)")
    with pytest.raises(WorkFailed, match="ended with 3"):
        await place.study(base)


async def test_more_different_words_than_code_has_are_not_held(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = await place.base()
    monkeypatch.setattr(map_shares, "MOST_WORDS", 3)
    with pytest.raises(WorkFailed, match="more than 3 different words"):
        await place.analyst.study(base, TASK, tokens=2000)


async def test_who_is_cancelled_leaves_no_reader_behind(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = await place.base()
    monkeypatch.setattr(map_shares, "ALONE", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(map_shares, "PROGRAM", "import time; time.sleep(60)")
    threads = threading.active_count()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await place.study(base)
    async with asyncio.timeout(60):
        # The pool's own worker stays, and a thread that ends sends no event.
        while threading.active_count() > threads + 1:  # noqa: ASYNC110 - as said
            await asyncio.sleep(0.02)
    assert not place.kept(base).exists()


async def test_a_study_that_is_wanted_no_longer_ends_between_two_files(place: Place) -> None:
    base = await place.base()
    gone = threading.Event()
    gone.set()
    git, kept = place.trees.git_of(base), map_store.MapStore(place.kept(base))
    with pytest.raises(WorkFailed, match="no longer"):
        map_making.looked_at(git, base.tree, kept, gone)


async def test_two_at_once_get_the_same(place: Place) -> None:
    base = await place.base()
    found = await asyncio.gather(*(place.study(base) for _ in range(4)))
    assert len({tuple(drawn(each)) for each in found}) == 1
    assert {each.suffix for each in place.kept(base).iterdir()} == {INDEX, WORDS}


async def test_only_the_trees_used_last_are_kept_and_remains_go(place: Place) -> None:
    base = await place.base()
    await place.study(base)
    stale = place.kept(base) / f"x{INDEX}{NEW}1-1"
    stale.write_bytes(b"half")
    os.utime(stale, (1, 1))
    trees = []
    for number in range(KEPT + 1):
        place.write("shop/one.py", f"x = {number}\n")
        trees.append(await place.base({}))
        await place.study(trees[-1])
        used = place.kept(base) / f"{trees[-1].tree}{INDEX}"
        os.utime(used, (used.stat().st_mtime + number,) * 2)
    kept = {each.stem for each in place.kept(base).iterdir()}
    assert kept == {each.tree for each in trees[1:]}


async def test_room_bounds_what_is_kept_but_for_the_last(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_store, "KEPT_BYTES", 1)
    await place.study(await place.base())
    place.write("shop/one.py", "x = 1\n")
    after = await place.base({})
    await place.study(after)
    assert {each.stem for each in place.kept(after).iterdir()} == {after.tree}


async def test_no_map_is_made_where_none_is_wanted(place: Place) -> None:
    base = await place.base()
    study = await place.study(base, tokens=0)
    assert (study.symbols, study.context.files, len(study.guides)) == ((), 7, 1)
    assert not place.kept(base).exists()


async def test_hostile_files_are_left_out_and_harm_nothing(place: Place) -> None:
    place.write("binary.py", b"def a_binary(): ...\0")
    place.write("huge.py", "def a_huge(): ...\n" * 60_000)
    place.write("minified.js", "function a_small() {}" * 5000)
    place.write("/".join(["deep"] * 60) + "/deep.py", "def so_deep(): ...\n")
    place.write("odd\nname\t.py", "def in_odd(): ...\n")
    place.write(os.fsdecode(b"not-\xff-utf8.py"), b"def caf\xc3\xa9_\xff(): ...\n")
    place.write("many.py", "".join(f"def f{n}_x(): ...\n" for n in range(5000)))
    place.write("empty.py", "")
    (place.repository / "link.py").symlink_to("/etc/passwd")
    (place.repository / "AGENTS.md").symlink_to("/etc/passwd")
    study = await place.study(await place.base({}), "so_deep, in_odd, a_huge, a_binary")
    assert {each.name for each in study.symbols[:2]} == {"so_deep", "in_odd"}
    assert not {"a_huge", "a_binary", "a_small"} & {each.name for each in study.symbols}
    assert (study.left_out, study.guides) == (3, ())
    again = await place.study(await place.base({}), "so_deep, in_odd, a_huge, a_binary")
    assert replace(again, is_cached=False) == study


async def test_files_beyond_the_bounds_are_left_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = await place.base()
    monkeypatch.setattr(map_making, "FILES", 2)
    assert (await place.study(base)).left_out == 3
    monkeypatch.setattr(map_making, "BYTES", 1)
    assert (await place.anew(base)).left_out == 5
    monkeypatch.undo()
    place.write("notes.txt", "more")
    after = await place.base({})
    assert (await place.study(after)).left_out == 0  # what there was no room for is read now


async def test_guides_are_cut_shown_once_and_hide_nothing(place: Place) -> None:
    place.write("AGENTS.md", "a\u202eb\x1b[0m\U000e0041\n" + "word " * 3000)
    place.write("CLAUDE.md", "c" * 9000)
    place.write("CONTRIBUTING.md", "c" * 9000)
    study = await place.study(await place.base({}))
    first, second = study.guides
    assert first.text.startswith("ab[0m\nword")
    assert len(first.text) == GUIDE_CHARS
    assert first.cut > 10_000
    assert (second.path, len(second.text)) == ("CLAUDE.md", GUIDES_CHARS - GUIDE_CHARS)


async def test_a_base_whose_store_lost_an_object_is_an_error_and_a_lost_past_is_none(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_making, "CHANGED", 0.5)
    base = await place.base()
    await place.study(base)
    place.write("shop/one.py", "import Shop\n")
    after = await place.base({})
    store = map_store.MapStore(place.kept(base))
    old = store.load(base.tree)
    assert old is not None
    at = list(old.paths).index("shop/one.py")
    blobs = [*old.blobs[:at], "0" * 40, *old.blobs[at + 1 :]]
    store.keep(base.tree, replace(old, blobs=blobs), store.words(base.tree) or {})
    study = await place.study(after)
    assert study == await place.anew(after)
    with pytest.raises(PatchyardError):
        await place.study(replace(after, tree="0" * 40))
