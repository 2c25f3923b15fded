"""Contents on disk: packs of small ones, files of large ones, whole or not there."""

import errno
import hashlib
import os
from pathlib import Path

import pytest

from keeping import stored
from patchyard.contracts.blobs import NoRoom
from patchyard.domain.errors import JournalBroken, Unavailable
from patchyard.stores import blobs as blob_store
from patchyard.stores.blobs import CHUNK_BYTES, FileBlobs, FileBlobSpaces


def test_a_large_content_is_kept_as_one_stream(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path / "space")
    large = tmp_path / "large"
    large.write_bytes(os.urandom(3 * 1024 * 1024 + 17))
    digests = []
    for _ in range(2):
        source = os.open(large, os.O_RDONLY)
        with blobs.writing() as writer:
            digests.append((writer.keep(source), writer.stored))
        os.close(source)
    target = os.open(tmp_path / "copy", os.O_WRONLY | os.O_CREAT)
    blobs.copy(digests[0][0], target)
    os.close(target)
    assert (tmp_path / "copy").read_bytes() == large.read_bytes()
    assert digests == [(digests[0][0], large.stat().st_size), (digests[0][0], 0)]
    assert [place.name for place in (tmp_path / "space").iterdir()] == [digests[0][0][:2]]


def test_holes_of_a_file_take_no_room_where_it_is_kept_nor_where_it_comes_back(
    tmp_path: Path,
) -> None:
    blobs = FileBlobs(tmp_path / "space")
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        for at in (10_000, 9_000_000, 20_000_001):
            file.seek(at)
            file.write(b"data")
        file.truncate(40_000_003)
    with sparse.open("rb") as source, blobs.writing() as writer:
        digest = writer.keep(source.fileno())
    with (tmp_path / "back").open("wb") as target:
        blobs.copy(digest, target.fileno())

    assert (tmp_path / "back").read_bytes() == sparse.read_bytes()
    for place in (blobs.place(digest), tmp_path / "back"):
        assert place.stat().st_blocks <= sparse.stat().st_blocks


@pytest.mark.parametrize("size", [CHUNK_BYTES, CHUNK_BYTES + 1])
def test_a_hole_before_its_data_decides_nothing_about_where_a_content_lies(
    tmp_path: Path, size: int
) -> None:
    blobs = FileBlobs(tmp_path / "space")
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.seek(500_000)
        file.write(b"data")
        file.truncate(size)
    with sparse.open("rb") as source, blobs.writing() as writer:
        digest = writer.keep(source.fileno())

    assert (digest in blobs.packed) is (size == CHUNK_BYTES)
    with (tmp_path / "back").open("wb") as target:
        blobs.copy(digest, target.fileno())
    assert (tmp_path / "back").read_bytes() == sparse.read_bytes()


def test_zeros_and_holes_of_equal_contents_have_one_name(tmp_path: Path) -> None:
    content = bytes(2 * CHUNK_BYTES) + b"data" + bytes(3 * CHUNK_BYTES)
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.seek(2 * CHUNK_BYTES)
        file.write(b"data")
        file.truncate(len(content))
    real = tmp_path / "real"
    real.write_bytes(content)
    assert sparse.stat().st_blocks < real.stat().st_blocks
    names = set()
    for place in (sparse, real):
        with place.open("rb") as source, FileBlobs(tmp_path / "space").writing() as writer:
            names.add(writer.keep(source.fileno()))
    assert len(names) == 1


@pytest.mark.parametrize(
    "others",
    [
        pytest.param(bytes(3 * CHUNK_BYTES + 1) + b"data", id="one byte more"),
        pytest.param(bytes(2 * CHUNK_BYTES) + b"data" + bytes(CHUNK_BYTES), id="elsewhere"),
        pytest.param(bytes(3 * CHUNK_BYTES) + b"data" + bytes(4), id="at the end"),
        pytest.param(bytes(4 * CHUNK_BYTES), id="without data"),
    ],
)
def test_contents_that_differ_in_where_zeros_lie_have_two_names(
    tmp_path: Path, others: bytes
) -> None:
    blobs = FileBlobs(tmp_path / "space")
    assert stored(blobs, bytes(3 * CHUNK_BYTES) + b"data") != stored(blobs, others)


def test_a_content_without_whole_zero_chunks_is_named_by_its_plain_digest(tmp_path: Path) -> None:
    content = os.urandom(CHUNK_BYTES) + bytes(CHUNK_BYTES - 1) + b"x"
    assert stored(FileBlobs(tmp_path / "space"), content) == hashlib.sha256(content).hexdigest()


def test_a_content_that_an_older_version_named_is_found_and_keeps_its_name(tmp_path: Path) -> None:
    content = bytes(2 * CHUNK_BYTES) + b"data" + bytes(CHUNK_BYTES)
    old = FileBlobs(tmp_path / "old")
    name = hashlib.sha256(content).hexdigest()
    old.place(name).parent.mkdir(parents=True)
    old.place(name).write_bytes(content)

    old.require(name)
    with (tmp_path / "back").open("w+b") as back:
        old.copy(name, back.fileno())
        new = FileBlobs(tmp_path / "new")
        with new.writing() as writer:
            assert writer.keep(back.fileno(), like=name) == name
    new.require(name)
    assert (tmp_path / "back").read_bytes() == content

    old.place(name).write_bytes(b"x" + content[1:])
    with pytest.raises(JournalBroken, match="damaged"):
        old.require(name)


def test_a_damaged_content_with_holes_is_told_as_such(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path / "space")
    name = stored(blobs, bytes(2 * CHUNK_BYTES) + b"data" + bytes(2 * CHUNK_BYTES))
    for damage in (bytes(2 * CHUNK_BYTES) + b"data", bytes(4 * CHUNK_BYTES + 4), b""):
        blobs.place(name).write_bytes(damage)
        with pytest.raises(JournalBroken, match="damaged"):
            blobs.require(name)


def test_small_contents_of_zeros_take_next_to_no_room_and_come_back(tmp_path: Path) -> None:
    contents = [bytes(CHUNK_BYTES - number) for number in range(20)]
    contents += [bytes(500_000) + b"data" + bytes(500_000), bytes(10)]
    blobs = FileBlobs(tmp_path / "space")
    names = [stored(blobs, content) for content in contents]

    assert FileBlobs(tmp_path / "space").size < 50_000
    for name, content in zip(names, contents, strict=True):
        with (tmp_path / "back").open("wb") as target:
            FileBlobs(tmp_path / "space").copy(name, target.fileno())
        assert (tmp_path / "back").read_bytes() == content
        assert (tmp_path / "back").stat().st_blocks <= 16


def test_a_content_beyond_the_room_that_is_left_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_store, "SPACE_BYTES", CHUNK_BYTES)
    blobs = FileBlobs(tmp_path / "space")
    for content in (os.urandom(2 * CHUNK_BYTES), os.urandom(CHUNK_BYTES)):
        with pytest.raises(NoRoom):
            stored(blobs, content + content)
    stored(blobs, os.urandom(1000))
    assert blobs.size < 2000


def test_a_content_that_cannot_be_read_is_told_as_such(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path / "space")
    digest = stored(blobs, bytes(2 * CHUNK_BYTES))
    place = blobs.place(digest)
    place.unlink()
    place.symlink_to("/dev/zero")

    with pytest.raises(JournalBroken, match="of a checkpoint is unreadable") as caught:
        blobs.require(digest)

    assert caught.value.details == {"how": "unreadable"}


def test_what_was_torn_at_the_end_of_a_pack_is_passed_over(tmp_path: Path) -> None:
    contents = [b"one" * 50, b"", b"two" * 50]
    digests = [stored(FileBlobs(tmp_path / "space"), content) for content in contents]
    packs = sorted((tmp_path / "space").glob("*.pack"))
    assert len(packs) == len(contents)  # a writer has its own
    whole = {pack: pack.read_bytes() for pack in packs}
    for torn, data in whole.items():
        for length in range(len(data)):
            torn.write_bytes(data[:length])
            blobs = FileBlobs(tmp_path / "space")
            left = [digest for digest in digests if blobs.has(digest)]
            assert len(left) == len(contents) - 1
            for digest in left:
                blobs.require(digest)
        torn.write_bytes(data + b"\0" * 100)
        assert all(map(FileBlobs(tmp_path / "space").has, digests))
        torn.write_bytes(data)


def test_a_full_pack_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_store, "PACK_BYTES", 150)
    blobs = FileBlobs(tmp_path / "space")
    digests = [stored(blobs, bytes([number]) * 60) for number in range(4)]
    assert len(list((tmp_path / "space").glob("*.pack"))) == 2
    for digest in digests:
        blobs.require(digest)


def test_a_full_disk_leaves_no_half_of_a_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = FileBlobs(tmp_path / "space")
    first = stored(blobs, b"first")
    write = os.write

    def half(descriptor: int, data: bytes) -> int:
        if len(data) < 40:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:40])

    source = os.open(__file__, os.O_RDONLY)
    monkeypatch.setattr(os, "write", half)
    with pytest.raises(Unavailable, match="no room"), blobs.writing() as writer:
        writer.keep(source)
    monkeypatch.undo()
    os.close(source)
    second = stored(blobs, b"second")
    for digest in (first, second):
        FileBlobs(tmp_path / "space").require(digest)


def test_a_space_can_be_removed_and_again(tmp_path: Path) -> None:
    spaces = FileBlobSpaces(tmp_path)
    source = os.open(__file__, os.O_RDONLY)
    with spaces.of("P").writing() as writer:
        writer.keep(source)
    os.close(source)
    spaces.remove("P")
    spaces.remove("P")
    assert list(tmp_path.iterdir()) == []


def test_a_pack_that_its_writer_began_anew_after_a_failed_sync_is_not_written_over(
    tmp_path: Path,
) -> None:
    space = tmp_path / "space"
    before = stored(FileBlobs(space), b"before")
    (pack,) = space.glob("*.pack")
    pack.rename(pack.with_suffix(".unsynced"))
    with_later = space / pack.name
    other = tmp_path / "other"
    later = stored(FileBlobs(other), b"later")
    next(other.glob("*.pack")).rename(with_later)

    blobs = FileBlobs(space)

    blobs.require(before)
    blobs.require(later)
    assert not list(space.glob("*.unsynced"))
