"""What is remembered of a checkout between looks, and that a damaged memory is as good as none."""

import hashlib
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ages import later, wait_for_tick
from laboratory import Lab, git, started
from patchyard.clients import git_folders
from patchyard.clients.foreign_git import ITS_OWN, ForeignGit
from patchyard.clients.listings import Listings
from patchyard.domain.errors import UsageError
from patchyard.domain.retention import store_key
from patchyard.workspaces import rule_files
from patchyard.workspaces.indexed import Indexed, Indexes, indexed
from patchyard.workspaces.recollection import Recollection, Recollections

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

LINE = "100644 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 0\t"


def listed(*paths: str) -> bytes:
    """Return paths as `ls-files --stage -z` says them."""
    return b"".join(LINE.encode() + os.fsencode(path) + b"\0" for path in paths)


def test_folders_submodules_and_attributes_are_taken_from_an_index() -> None:
    said = listed("a/b/f", "a/g", "top") + listed("m").replace(b"100644", b"160000")
    assert indexed(said) == Indexed(
        folders=frozenset({"", "a", "a/b"}), submodules=frozenset({"m"}), has_attributes=False
    )
    assert indexed(listed("a/.gitattributes")).has_attributes
    assert indexed(listed(".gitattributes")).has_attributes
    assert not indexed(listed("a/x.gitattributes", "c/.gitattributes/f")).has_attributes
    assert indexed(b"").folders == {""}


def test_git_is_asked_once_for_an_index() -> None:
    asked: list[str] = []

    def ask(name: str) -> bytes:
        asked.append(name)
        return listed(f"{name}/f")

    memory = Indexes()
    for name in ("one", "one", "two", "one", "two"):
        assert memory.of(name, partial(ask, name)).folders == {"", name}
    assert asked == ["one", "two"]
    for number in range(9):
        memory.of(f"{number}", lambda: b"")
    assert len(memory.written()) == 4


def test_a_very_large_index_is_not_kept() -> None:
    memory = Indexes()
    paths = [f"{number}/f" for number in range(50_000)]
    assert len(memory.of("large", lambda: listed(*paths)).folders) == 50_001
    assert not memory.written()


async def test_the_index_as_it_is_now_counts(copying: Lab) -> None:
    await started(copying)
    (copying.repo / "new").mkdir()
    (copying.repo / "new/.gitignore").write_text("f\n")
    (copying.repo / "new/f").touch()
    before = await copying.base()
    git(copying.repo, "add", "--force", "new/f")

    after = await copying.base()

    assert "new/f" not in copying.trees.entries(before, before.tree)
    assert "new/f" in copying.trees.entries(after, after.tree)
    git(copying.repo, "update-index", "--split-index")
    (copying.repo / "new/g").mkdir()
    (copying.repo / "new/g/h").touch()
    git(copying.repo, "add", "--force", "new/g/h")
    assert "new/g/h" in copying.trees.entries(await copying.base(), (await copying.base()).tree)


async def test_what_is_remembered_is_for_this_user_alone(copying: Lab) -> None:
    await started(copying)
    place = recollection_of(copying)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert [each.name for each in place.parent.glob("recollection*")] == [place.name]


def recollection_of(lab: Lab) -> Path:
    return lab.trees.home / "trees" / store_key(str(lab.repo)) / "recollection"


def _cut(place: Path) -> None:
    os.truncate(place, place.stat().st_size // 2)


def _empty(place: Path) -> None:
    os.truncate(place, 0)


def _turned(place: Path) -> None:
    content = bytearray(place.read_bytes())
    content[-5] ^= 1
    place.write_bytes(content)


def _of_newer_form(place: Path) -> None:
    place.write_bytes(b"2" + place.read_bytes()[1:])


def _of_other_form(place: Path) -> None:
    body = b'{"indexes": [[1, 2, 3]], "listings": []}'
    place.write_bytes(f"1 {hashlib.sha256(body).hexdigest()}\n".encode() + body)


def _without_end(place: Path) -> None:
    body = place.read_bytes().partition(b"\n")[2].replace(b'"offset": ', b'"offset": 1e999, "o": ')
    place.write_bytes(f"1 {hashlib.sha256(body).hexdigest()}\n".encode() + body)


def _a_list(place: Path) -> None:
    body = b"[]"
    place.write_bytes(f"1 {hashlib.sha256(body).hexdigest()}\n".encode() + body)


def _nested(place: Path) -> None:
    body = b"[" * 100_000
    place.write_bytes(f"1 {hashlib.sha256(body).hexdigest()}\n".encode() + body)


def _huge(place: Path) -> None:
    os.truncate(place, 1024**4)


def _pipe(place: Path) -> None:
    place.unlink()
    os.mkfifo(place)


def _folder(place: Path) -> None:
    place.unlink()
    place.mkdir()


OF_OTHER_FORM = [_of_newer_form, _of_other_form, _without_end, _a_list, _nested]
DAMAGES = [_cut, _empty, _turned, *OF_OTHER_FORM, _huge, _pipe]


@pytest.mark.parametrize("damage", [*DAMAGES, _folder])
async def test_damage_leads_to_a_look_anew(copying: Lab, damage: Callable[[Path], None]) -> None:
    base = await started(copying)
    place = recollection_of(copying)
    damage(place)

    made = Recollections(copying.trees.home / "trees").of(copying.repo)

    assert made.indexes.written() == []
    assert made.listings.written()["rows"] == []
    lab = type(copying)(
        repo=copying.repo,
        trees=type(copying.trees)(copying.trees.home),
        workspaces=copying.workspaces,
    )
    assert (await lab.base()).tree == base.tree


def test_another_process_knows_what_one_wrote_and_only_of_that_checkout(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for top in (one, two):
        (tmp_path / "trees" / store_key(str(top))).mkdir(parents=True)
    memory = Recollections(tmp_path / "trees")
    memory.of(one).indexes.of("digest", lambda: listed("d/f"))
    memory.write(one)
    memory.write(two)

    again = Recollections(tmp_path / "trees")

    assert again.of(one).indexes.written() == [["digest", False, ["", "d"], []]]
    assert again.of(two).indexes.written() == []


def test_what_a_killed_process_left_is_deleted_and_that_of_another_stays(tmp_path: Path) -> None:
    folder = tmp_path / store_key(str(tmp_path))
    folder.mkdir()
    for name in ("recollection.new-4194999-1", "recollection.new-1-1"):
        (folder / name).touch()
    memory = Recollections(tmp_path)
    memory.of(tmp_path).indexes.of("digest", lambda: b"")

    memory.write(tmp_path)

    assert {each.name for each in folder.iterdir()} == {"recollection", "recollection.new-1-1"}


def test_only_some_checkouts_are_in_memory(tmp_path: Path) -> None:
    memory = Recollections(tmp_path, kept=2)
    first = memory.of(tmp_path / "0")
    assert memory.of(tmp_path / "0") is first
    for number in range(1, 3):
        memory.of(tmp_path / f"{number}")
    assert memory.of(tmp_path / "0") is not first


def test_a_disk_that_takes_nothing_is_no_error(tmp_path: Path) -> None:
    memory = Recollections(tmp_path / "nothing")
    memory.of(tmp_path).indexes.of("digest", lambda: b"")
    memory.write(tmp_path)
    assert not (tmp_path / "nothing").exists()


def remembering() -> Recollection:
    """Return a memory for which all is old enough, on any file system."""
    return Recollection(listings=Listings(clock=later, mount_of=lambda *_: "disk"))


def _in_objects(repo: Path) -> None:
    os.mkfifo(repo / ".git/objects/pack/pack-1.idx")


def _in_new_object_folder(repo: Path) -> None:
    (repo / ".git/objects/zz").mkdir()
    os.mkfifo(repo / ".git/objects/zz/1")


def _over_an_object(repo: Path) -> None:
    some = next(each for each in (repo / ".git/objects").glob("??/*"))
    some.unlink()
    os.mkfifo(some)


def _behind_a_link(repo: Path) -> None:
    # The link was there before: only where it leads to is new.
    os.mkfifo(repo / "target")


def _in_logs(repo: Path) -> None:
    os.mkfifo(repo / ".git/logs/refs/heads/pipe")


def _in_refs(repo: Path) -> None:
    os.mkfifo(repo / ".git/refs/heads/pipe")


@pytest.mark.parametrize(
    "trap",
    [_in_objects, _in_new_object_folder, _over_an_object, _behind_a_link, _in_logs, _in_refs],
)
def test_a_trap_in_a_git_directory_is_named_after_a_look(
    copying: Lab, trap: Callable[[Path], None]
) -> None:
    copying.write({"a/f": "f\n"})
    copying.commit()
    (copying.repo / ".git/objects/pack/led").symlink_to(copying.repo / "target")
    (copying.repo / "target").touch()
    reading = ForeignGit(home=copying.repo, config=Path(os.devnull), known=ITS_OWN)
    known = remembering().listings
    wait_for_tick(*(copying.repo / ".git").rglob("*/"))
    for _ in range(2):
        git_folders.require_readable(reading, copying.repo, home="/", listings=known)
    if trap is _behind_a_link:
        (copying.repo / "target").unlink()

    trap(copying.repo)

    with pytest.raises(UsageError, match="is no file"):
        git_folders.require_readable(reading, copying.repo, home="/", listings=known)


def _pipe_of_rules(repo: Path) -> None:
    os.mkfifo(repo / "a/.gitignore")


def _rules_exchanged(repo: Path) -> None:
    (repo / "rules").unlink()
    os.mkfifo(repo / "rules")


def _rules_without_end(repo: Path) -> None:
    os.truncate(repo / "a/b/.gitattributes", 1024**4)


def _repository_within(repo: Path) -> None:
    (repo / "a/new/.git").mkdir(parents=True)
    os.mkfifo(repo / "a/new/.git/HEAD")


def _in_a_folder_named_like_rules(repo: Path) -> None:
    (repo / "a/.gitignore").mkdir()
    os.mkfifo(repo / "a/.gitignore/.gitignore")


@pytest.mark.parametrize(
    "trap",
    [
        _pipe_of_rules,
        _rules_exchanged,
        _rules_without_end,
        _repository_within,
        _in_a_folder_named_like_rules,
    ],
)
def test_a_trap_in_a_work_tree_is_named_after_a_look(
    copying: Lab, trap: Callable[[Path], None]
) -> None:
    copying.write({"a/f": "f\n", "a/b/.gitattributes": "", "rules": ""})
    (copying.repo / ".gitignore").symlink_to("rules")
    copying.commit()
    known = remembering().listings
    index = indexed(os.fsencode(git(copying.repo, "ls-files", "--stage", "-z")))
    reading = ForeignGit(
        home=copying.repo,
        config=Path(os.devnull),
        work_tree=copying.repo,
        known={"check-ignore": "reads which folders are ignored"},
    )
    wait_for_tick(copying.repo, copying.repo / "a", copying.repo / "a/b")
    for _ in range(2):
        rule_files.require_readable(reading, copying.repo, index, listings=known)

    trap(copying.repo)

    with pytest.raises(UsageError, match=r"is no file|is larger"):
        rule_files.require_readable(reading, copying.repo, index, listings=known)
