"""What git opens in a git directory by many names, and by names that others write there."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from laboratory import git
from patchyard.clients import git_folders
from patchyard.clients.foreign_git import ITS_OWN, ForeignGit
from patchyard.clients.git import Finished
from patchyard.clients.git_files import MAX_TEXT_BYTES, MOST_FILES
from patchyard.clients.git_folders import require_readable
from patchyard.domain.errors import UsageError

IDX = "pack-1111111111111111111111111111111111111111.idx"
SPARSE = 600 * 1024**2


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A checkout of one commit."""
    git(tmp_path, "init", "-q", "-b", "main", "top")
    (tmp_path / "top/f").write_text("f\n")
    git(tmp_path / "top", "add", "f")
    git(tmp_path / "top", "commit", "-q", "-m", "f")
    return tmp_path / "top"


def look(top: Path, *, ref: str = "", home: str = "/nonexistent") -> None:
    """Look as commands do before git runs."""
    reading = ForeignGit(home=top.parent, config=Path(os.devnull), known=ITS_OWN)
    require_readable(reading, top, home=home, ref=ref)


def moved(place: Path, to: str) -> Path:
    """Put a link into the place of a folder, and return where it is now."""
    there = place.parent / to
    there.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(place, there)
    place.symlink_to(to)
    return there


def _refs(top: Path) -> None:
    heads = moved(top / ".git/refs/heads", "../zz")
    (heads / "main").unlink()
    os.mkfifo(heads / "main")


def _packs(top: Path) -> None:
    os.mkfifo(moved(top / ".git/objects/pack", "../alt/pack") / IDX)


def _logs(top: Path) -> None:
    logs = moved(top / ".git/logs/refs", "../zz")
    (logs / "heads/main").unlink()
    os.mkfifo(logs / "heads/main")


def _store(folder: Path) -> Path:
    """Make a store of objects that a pipe lies in."""
    (folder / "pack").mkdir(parents=True)
    os.mkfifo(folder / "pack" / IDX)
    return folder


def _lent(top: Path) -> None:
    _store(top / ".git/alt")
    (top / ".git/objects/info/alternates").write_text("# none\n../alt\n")


def _lent_by_another(top: Path) -> None:
    named = str(_store(top.parent / 'b "\n\x01')).encode()
    for old, new in ((b"\\", rb"\\"), (b'"', rb"\""), (b"\n", rb"\n"), (b"\x01", rb"\001")):
        named = named.replace(old, new)
    (top.parent / "a/info").mkdir(parents=True)
    (top.parent / "a/info/alternates").write_bytes(b'"%s"\n' % named)
    (top / ".git/objects/info/alternates").write_text(f"{top.parent}/a\n")


def _linked_alternates(top: Path) -> None:
    os.mkfifo(top / ".git/pipe")
    (top / ".git/objects/info/alternates").symlink_to("../../pipe")


def _symbolic(top: Path) -> None:
    (top / ".git/zz").mkdir()
    os.mkfifo(top / ".git/zz/y")
    (top / ".git/other").write_text("ref: zz/y\n")
    (top / ".git/refs/heads/main").write_text("ref: other\n")


@pytest.mark.parametrize(
    "put", [_refs, _packs, _logs, _lent, _lent_by_another, _linked_alternates, _symbolic]
)
def test_a_pipe_that_git_is_led_to_is_named(top: Path, put: Callable[[Path], None]) -> None:
    put(top)

    with pytest.raises(UsageError, match="is no file"):
        look(top)


@pytest.mark.parametrize("name", ["main", "side/one"])
@pytest.mark.parametrize("more", ["", "~2", "^{tree}", "@{1}", ":f"])
def test_a_pipe_by_the_name_of_what_was_asked_for_is_named(top: Path, name: str, more: str) -> None:
    place = top / ".git" / name
    place.parent.mkdir(exist_ok=True)
    os.mkfifo(place)

    look(top)
    look(top, ref="HEAD")
    with pytest.raises(UsageError, match=f"/.git/{name} is no file"):
        look(top, ref=f"{name}{more}")


def test_refs_of_a_linked_work_tree_are_looked_at(top: Path) -> None:
    git(top, "worktree", "add", "-q", str(top.parent / "linked"))
    place = top / ".git/worktrees/linked/refs/bisect/bad"
    place.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(place)

    with pytest.raises(UsageError, match="refs/bisect/bad is no file"):
        look(top.parent / "linked")


@pytest.mark.parametrize(
    "name",
    [
        *("refs/heads/main", "refs/tags/t", "objects/info/alternates", "reftable/tables.list"),
        "objects/info/commit-graphs/commit-graph-chain",
    ],
)
def test_what_git_reads_whole_is_bounded(top: Path, name: str) -> None:
    place = top / ".git" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()
    os.truncate(place, MAX_TEXT_BYTES)
    look(top)

    os.truncate(place, SPARSE)
    with pytest.raises(UsageError, match=f"{place.name} is larger than any"):
        look(top)


def test_what_git_maps_may_be_large(top: Path) -> None:
    for name in ("objects/info/commit-graph", "objects/pack/pack-1.pack", "logs/HEAD"):
        (top / ".git" / name).touch()
        os.truncate(top / ".git" / name, SPARSE)

    look(top)


def test_links_in_a_circle_and_a_store_that_lends_to_itself_end(top: Path) -> None:
    (top / ".git/refs/around").symlink_to("..")
    (top / ".git/refs/itself").symlink_to("itself")
    (top / ".git/objects/info/alternates").write_text(".\n../objects\nno\0thing\n/nowhere\n")
    (top / ".git/refs/heads/a").write_text("ref: refs/heads/a\n")
    (top / ".git/refs/heads/b").write_text(f"ref: {'x' * 5000}\n")

    look(top)


def test_links_to_very_many_files_are_refused(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (top.parent / "many").mkdir()
    for number in range(20):
        (top.parent / "many" / str(number)).touch()
    (top / ".git/refs/x").symlink_to("../../../many")
    look(top)
    monkeypatch.setattr(git_folders, "MOST_LED", 10)

    with pytest.raises(UsageError, match="more than 10 files"):
        look(top)


def test_a_path_that_is_too_long_to_look_at_is_refused(top: Path) -> None:
    with Deep(top / ".git/refs/heads"), pytest.raises(UsageError, match="too long to look at"):
        look(top)


class Deep:
    """Folders below one another, until no path of them is short enough for the kernel."""

    def __init__(self, at: Path) -> None:
        self._at = at

    def __enter__(self) -> None:
        folder = os.open(self._at, os.O_RDONLY)
        for _ in range(20):
            os.mkdir("x" * 250, dir_fd=folder)
            deeper = os.open("x" * 250, os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = deeper
        os.close(folder)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._at)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Write down each git that is run."""
    ran: list[str] = []
    attempt = ForeignGit.attempt

    def noted(self: ForeignGit, *words: str, cwd: Path | None = None) -> Finished:
        ran.append(words[0])
        return attempt(self, *words, cwd=cwd)

    monkeypatch.setattr(ForeignGit, "attempt", noted)
    return ran


def test_a_configuration_that_includes_itself_is_read_once(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (top / ".git/config").open("a") as file:
        file.write("[include]\n" + "\tpath = config\n\tpath = ../.git/config\n" * 4)
    ran = counted(monkeypatch)

    look(top)

    assert ran == ["config"]


def test_a_configuration_that_includes_very_many_is_refused(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MOST_FILES + 20):
        said = f"[include]\n\tpath = c{number + 1}\n"
        (top / ".git" / f"c{number}").write_text(said)
    git(top, "config", "include.path", "c0")
    ran = counted(monkeypatch)

    with pytest.raises(UsageError, match=rf"config includes more than {MOST_FILES} files"):
        look(top)
    assert len(ran) <= MOST_FILES + 1


def test_a_file_that_is_included_early_and_late_is_read_with_all_it_includes(top: Path) -> None:
    for number in range(12):
        said = f"[include]\n\tpath = c{number + 1}\n"
        (top / ".git" / f"c{number}").write_text(said)
    os.mkfifo(top / ".git/c12")
    (top / ".git/config").write_text("[include]\n\tpath = c11\n\tpath = c0\n")

    with pytest.raises(UsageError, match="/c12 is no file"):
        look(top)


@pytest.mark.parametrize("named", ["pipe", "~/pipe", "~ann/pipe", "%(prefix)/{}/pipe"])
def test_included_paths_are_read_as_git_reads_them(
    top: Path, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(top / ".git/pipe")
    moved(top / ".git/config", "../../elsewhere")  # relative paths are so to the link, too
    home = str(top / ".git")
    expanded = {"~ann/pipe": f"{home}/pipe"}
    monkeypatch.setattr(os.path, "expanduser", lambda path: expanded.get(path, path))
    up = "/".join([".."] * 20)
    path = named.format(f"{up}{home}")
    git(top, "config", "-f", str(top.parent / "elsewhere"), "includeIf.gitdir:/none.path", path)

    with pytest.raises(UsageError, match="/pipe is no file"):
        look(top, home=home)
