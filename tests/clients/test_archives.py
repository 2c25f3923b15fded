"""A tar that a stranger made touches nothing outside of the folder that it is unpacked into."""

import contextlib
import errno
import io
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from patchyard.clients import archives
from patchyard.clients.archives import unpack

Member = tuple[str, bytes | str, str]  # name, type or content, where a link leads


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """An empty folder beside which nothing comes up."""
    folder = tmp_path / "tree"
    folder.mkdir()
    yield folder
    assert {path.name for path in tmp_path.iterdir()} <= {"outside", "tree"}


def unpacked(folder: Path, *members: Member, mode: int = 0o777, spare_bytes: int = 0) -> None:
    """Make an archive of members and unpack it."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, kind, link in members:
            entry = tarfile.TarInfo(name)
            entry.mode = mode
            content = b"" if isinstance(kind, bytes) else kind.encode()
            entry.type = kind if isinstance(kind, bytes) else tarfile.REGTYPE
            entry.size, entry.linkname = len(content), link
            archive.addfile(entry, io.BytesIO(content))
    written.seek(0)
    with tarfile.open(fileobj=written) as archive:
        unpack(archive, folder, spare_bytes=spare_bytes)


def test_what_does_not_fit_on_the_disk_is_not_begun(tree: Path) -> None:
    entry = tarfile.TarInfo("large")
    entry.size = 1 << 50
    header = io.BytesIO(entry.tobuf(tarfile.GNU_FORMAT))
    with tarfile.open(fileobj=header) as archive, pytest.raises(OSError, match="space") as raised:
        unpack(archive, tree)
    assert raised.value.errno == errno.ENOSPC
    assert list(tree.iterdir()) == []


def test_some_room_stays_free(tree: Path) -> None:
    usage = shutil.disk_usage(tree)
    for spare, fits in ((0, True), (usage.total, False)):
        with contextlib.nullcontext() if fits else pytest.raises(OSError, match="space"):
            unpacked(tree, ("small", "it", ""), spare_bytes=spare)


def test_there_is_a_bound_for_how_many_there_are(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MOST_ENTRIES", 2)
    unpacked(tree, ("a", "", ""), ("b", "", ""))
    with pytest.raises(tarfile.ExtractError, match="more than 2 entries"):
        unpacked(tree, ("c", "", ""), ("d", "", ""), ("e", "", ""))


def test_a_file_with_holes_needs_the_room_of_what_it_holds(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with (outside / "log").open("wb") as log:
        log.truncate(1 << 40)
    packing = ["tar", "-C", str(outside), "-Scf", str(outside / "root.tar"), "log"]
    subprocess.run(packing, check=True)
    with tarfile.open(outside / "root.tar") as archive:
        unpack(archive, tree)
    assert (tree / "log").stat().st_size == 1 << 40


def test_a_system_with_links_is_unpacked_as_it_is(tree: Path) -> None:
    unpacked(
        tree,
        ("./", tarfile.DIRTYPE, ""),
        ("./usr/bin/", tarfile.DIRTYPE, ""),
        ("./bin", tarfile.SYMTYPE, "/usr/bin"),
        ("bin/tool", "it", ""),
        ("usr/bin/again", tarfile.LNKTYPE, "./bin/tool"),
        ("usr/bin/short", tarfile.SYMTYPE, "tool"),
        ("usr/bin/other", tarfile.LNKTYPE, "usr/bin/short"),
        ("/etc/motd", "old and longer", ""),
        ("/etc/motd", "new", ""),
        ("dev/null", tarfile.CHRTYPE, ""),
        ("run/pipe", tarfile.FIFOTYPE, ""),
        mode=0o6777,
    )

    assert (tree / "usr/bin/tool").read_text() == "it"
    assert (tree / "usr/bin/tool").samefile(tree / "usr/bin/again")
    assert (tree / "usr/bin/other").readlink() == Path("tool")
    assert (tree / "bin").readlink() == Path("/usr/bin")
    assert (tree / "etc/motd").read_text() == "new"
    assert not (tree / "dev").exists()
    assert not (tree / "run").exists()
    modes = {stat.S_IMODE((tree / name).stat().st_mode) for name in ("usr/bin", "usr/bin/tool")}
    assert modes == {0o755}


def test_folders_that_close_themselves_are_filled_first(tree: Path) -> None:
    unpacked(tree, ("a/", tarfile.DIRTYPE, ""), ("a/b", "in it", ""), mode=0o500)
    assert (tree / "a/b").read_text() == "in it"
    assert stat.S_IMODE((tree / "a").stat().st_mode) == 0o500


OUTSIDE = "{outside}/file"
ESCAPES: dict[str, Sequence[Member]] = {
    "a hard link to a file of the machine": [("a", tarfile.LNKTYPE, OUTSIDE)],
    "and a file over it": [("a", tarfile.LNKTYPE, OUTSIDE), ("a", "theirs", "")],
    "a hard link upwards": [("a", tarfile.LNKTYPE, "../outside/file"), ("a", "theirs", "")],
    "a hard link behind a link": [
        ("out", tarfile.SYMTYPE, "{outside}"),
        ("a", tarfile.LNKTYPE, "out/file"),
        ("a", "theirs", ""),
    ],
    "a hard link to a link, and a file over it": [
        ("out", tarfile.SYMTYPE, OUTSIDE),
        ("a", tarfile.LNKTYPE, "out"),
        ("a", "theirs", ""),
    ],
    "a file over a link": [("a", tarfile.SYMTYPE, OUTSIDE), ("a", "theirs", "")],
    "a file behind a link": [("out", tarfile.SYMTYPE, "{outside}"), ("out/file", "theirs", "")],
    "a file behind a link upwards": [
        ("d/out", tarfile.SYMTYPE, "../../outside"),
        ("d/out/file", "theirs", ""),
    ],
    "a folder over a link": [
        ("out", tarfile.SYMTYPE, "{outside}"),
        ("out/", tarfile.DIRTYPE, ""),
    ],
    "a file upwards": [("../outside/file", "theirs", "")],
    "a folder upwards": [("d/../../outside/", tarfile.DIRTYPE, "")],
    "links in a circle": [
        ("a", tarfile.SYMTYPE, "b"),
        ("b", tarfile.SYMTYPE, "a"),
        ("a/file", "theirs", ""),
    ],
    "a path beyond what the system follows": [
        *(("x/" * number + "x", tarfile.DIRTYPE, "") for number in (0, 1)),
        ("l" * 200 + "/" + "m" * 200, tarfile.SYMTYPE, "../" * 1200 + "{outside}"),
        ("l" * 200 + "/" + "m" * 200 + "/file", "theirs", ""),
    ],
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_nothing_outside_is_written_or_gets_a_second_name(
    tree: Path, tmp_path: Path, escape: Sequence[Member]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    (outside / "file").write_text("mine")
    (outside / "file").chmod(0o600)
    members = [(name, kind, link.format(outside=outside)) for name, kind, link in escape]

    with contextlib.suppress(OSError, ValueError, tarfile.TarError):  # or read as within the tree
        unpacked(tree, *members)

    facts = (outside / "file").stat()
    assert (outside / "file").read_text() == "mine"
    assert (stat.S_IMODE(facts.st_mode), facts.st_nlink) == (0o600, 1)
    assert stat.S_IMODE(outside.stat().st_mode) == 0o700
    assert [path.name for path in outside.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.DIRTYPE])
def test_a_plain_file_takes_the_place_of_a_link_and_not_of_a_folder(
    tree: Path, kind: bytes
) -> None:
    members: Sequence[Member] = [("a", kind, "nowhere"), ("a", "it", "")]
    if kind == tarfile.DIRTYPE:
        with pytest.raises(OSError, match="a"):
            unpacked(tree, *members)
    else:
        unpacked(tree, *members)
        assert (tree / "a").read_text() == "it"


@pytest.mark.parametrize("name", ["", ".", "a/..", "//"])
def test_what_is_no_name_of_a_file_is_refused(tree: Path, name: str) -> None:
    with pytest.raises(tarfile.TarError):
        unpacked(tree, (name, "it", ""))
