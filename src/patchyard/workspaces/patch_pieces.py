"""A change set as a patch for `git apply --binary`, in pieces: its files may be of any size.

git holds a binary file and its deflated form whole while it writes a patch of it. So where one is
larger than LARGEST_TEXT, git leaves out the contents of binary files, and they are put in here: as
`GIT binary patch` of git's own format, whose hunks are the deflated file in lines of 52 bytes.
"""

import base64
import itertools
import os
import re
import zlib
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack

from patchyard.clients.blobreader import BlobReader
from patchyard.clients.git import Git
from patchyard.domain.changeset import LARGEST_TEXT, Change, ChangeSet, ChangeStatus
from patchyard.domain.errors import UsageError, WorkFailed
from patchyard.workspaces.conversions import sizes_of

LINE_BYTES = 52  # of a binary hunk, the most that git reads
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # how many bytes a line has
MOST_COMPARED = 256 * 1024 * 1024  # bytes of files, among which git looks for renamed ones
DIFFERENCE = ("--full-index", "--no-ext-diff", "--no-textconv", "--no-color")
PREFIXES = ("--src-prefix=a/", "--dst-prefix=b/")

MOST_SPEC_BYTES = 1024 * 1024  # of the paths that git is told to leave out: Linux takes twice that
COMING = {ChangeStatus.ADDED, ChangeStatus.DELETED, ChangeStatus.TYPE}
TO_QUOTE = re.compile(rb'[\x00-\x1f\x7f"\\]')
ESCAPES = {
    bytes([code]): b"\\" + bytes([letter])
    for code, letter in zip(b'\a\b\t\n\v\f\r"\\', b'abtnvfr"\\', strict=True)
}

Inserted = Callable[[str, str], Iterator[bytes]]
Sides = tuple[tuple[str, str], tuple[str, str]]


def patch_pieces(
    git: Git, changeset: ChangeSet, paths: Sequence[str], *, has_binary: bool
) -> Iterator[bytes]:
    """Yield the change set as a patch, of `paths` only when given. `git` looks at the store.

    Without `has_binary` a line says that a binary file differs; such a patch cannot be applied.
    Raises WorkFailed where the store lacks something, UsageError where more large files come or go
    than one git can be told to leave out.
    """
    changes = changeset.changes
    sizes = sizes_of(git, {blob for each in changes for blob in (each.old_blob, each.blob) if blob})
    is_small = max(sizes.values(), default=0) <= LARGEST_TEXT
    words = [*DIFFERENCE, *PREFIXES, renames(changes, sizes)]
    trees = (changeset.base_tree, changeset.tree)
    if is_small:
        words += ["--binary"] * has_binary
        yield from git.streamed("diff-tree", "-p", "-r", *words, *trees, "--", *paths)
        return
    own = [part for each in changes for part in _own_parts(each, sizes, paths)]
    asking = git.streaming().at(git.git_dir, extra={"GIT_LITERAL_PATHSPECS": "0"})
    patch = asking.streamed("diff-tree", "-p", "-r", *words, *trees, "--", *_specs(paths, own))
    with ExitStack() as stack:
        old, new = (stack.enter_context(BlobReader(git)) for _ in range(2))

        def binary(before: str, after: str) -> Iterator[bytes]:
            return _binary((new, after), (old, before))

        yield from _filled(patch, binary) if has_binary else patch
        for path, sides in own:
            yield from _own(path, sides, binary if has_binary else _unshown)


def _own_parts(
    change: Change, sizes: Mapping[str, int], paths: Sequence[str]
) -> Sequence[tuple[str, Sides]]:
    """Return what goes and what comes of a large file, by path, with mode and blob on each side.

    git reads such a file whole even where it shows none of it. That is so, too, of a renamed one
    of which `paths` choose one end: what it is told of it alone is a file that comes or goes.
    """
    largest = max(sizes.get(blob or "", 0) for blob in (change.old_blob, change.blob))
    if largest <= LARGEST_TEXT or change.status not in {*COMING, ChangeStatus.RENAMED}:
        return ()
    before = (change.old_mode or "", change.old_blob or "")
    after = (change.mode or "", change.blob or "")
    nothing = ("", "0" * len(change.blob or change.old_blob or ""))
    ends: list[tuple[str, Sides]] = [
        *([(change.old_path or change.path, (before, nothing))] if change.old_blob else []),
        *([(change.path, (nothing, after))] if change.blob else []),
    ]
    chosen = [each for each in ends if _is_chosen(each[0], paths)]
    return () if change.status is ChangeStatus.RENAMED and len(chosen) == len(ends) else chosen


def _is_chosen(path: str, paths: Sequence[str]) -> bool:
    return not paths or any(path == each or path.startswith(f"{each}/") for each in paths)


def _specs(paths: Sequence[str], own: Sequence[tuple[str, Sides]]) -> Sequence[str]:
    """Return git's pathspecs for `paths` (empty: all) without those of `own`."""
    left_out = [f":(exclude,top,literal){path}" for path in dict.fromkeys(path for path, _ in own)]
    if sum(map(len, map(os.fsencode, left_out))) > MOST_SPEC_BYTES:
        raise UsageError(
            f"the change has {len(left_out)} large files, too many for one patch",
            hint="name some of the paths, or hand over a branch: agents plan apply --to branch",
        )
    return [*(f":(top,literal){path}" for path in paths), *left_out]


def _own(path: str, sides: Sides, inserted: Inserted) -> Iterator[bytes]:
    """Yield the patch of a file that comes or goes."""
    (old_mode, old), (mode, new) = sides
    names = b" ".join(_quoted(side, path) for side in (b"a/", b"b/"))
    what = f"deleted file mode {old_mode}" if old_mode else f"new file mode {mode}"
    yield b"diff --git %s\n%s\nindex %s..%s\n" % (names, *(w.encode() for w in (what, old, new)))
    yield from inserted(old, new)


def _unshown(*_: str) -> Iterator[bytes]:
    yield b"Binary files differ\n"


def _quoted(side: bytes, path: str) -> bytes:
    """Return a name as git writes it in a patch."""
    raw = side + os.fsencode(path)
    if not TO_QUOTE.search(raw):
        return raw
    return b'"%s"' % TO_QUOTE.sub(lambda found: ESCAPES.get(found[0], b"\\%03o" % found[0][0]), raw)


def renames(changes: Collection[Change], sizes: Mapping[str, int]) -> str:
    """Return git's word for the renames to look for; `sizes` are the bytes of each blob.

    git reads two files whole to see how much they have in common. So where that is much, only a
    file whose content stays the same counts as renamed.
    """
    left = [
        sizes.get(each.old_blob or "", 0)
        for each in changes
        if each.status in {ChangeStatus.DELETED, ChangeStatus.RENAMED}
    ]
    come = [
        sizes.get(each.blob or "", 0)
        for each in changes
        if each.status in {ChangeStatus.ADDED, ChangeStatus.RENAMED}
    ]
    are_large = min(max(left, default=0), max(come, default=0)) > LARGEST_TEXT
    return "-M100%" if are_large or sum(left) + sum(come) > MOST_COMPARED else "-M"


def _filled(patch: Iterable[bytes], inserted: Inserted) -> Iterator[bytes]:
    """Put what `inserted` yields for two blobs in the place of "Binary files … differ"."""
    before = after = ""
    for lines in _lines(patch):
        kept: list[bytes] = []
        for line in lines:  # one of a file's text begins with a space, +, - or \
            if line.startswith(b"index "):
                before, _, after = line.split()[1].decode("ascii").partition("..")
            if line.startswith(b"Binary files "):
                yield b"".join(kept)
                kept.clear()
                yield from inserted(before, after)
            else:
                kept.append(line)
        yield b"".join(kept)


def mended(made: Callable[[], Iterator[bytes]], mend: Callable[[], object]) -> Generator[bytes]:
    """Yield the pieces of `made`, none of them empty; after `mend` once more where it fails.

    What was yielded before it failed is left out then: both times the bytes are the same.
    """
    taken = 0
    try:
        for piece in filter(None, made()):
            yield piece
            taken += len(piece)
    except WorkFailed:
        mend()
        for piece in made():
            if rest := piece[taken:]:
                yield rest
            taken = max(0, taken - len(piece))


def _lines(pieces: Iterable[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield the lines of each piece that end in it; a carriage return ends none."""
    rest: list[bytes] = []
    for piece in pieces:
        head, end, tail = piece.rpartition(b"\n")
        if end:
            yield [b"%s\n" % line for line in b"".join([*rest, head]).split(b"\n")]
            rest.clear()
        rest.append(tail)
    yield [b"".join(rest)]


def _binary(*sides: tuple[BlobReader, str]) -> Iterator[bytes]:
    """Yield the binary patch of a file: a hunk that makes the new one, and one for the old."""
    yield b"GIT binary patch\n"
    for reader, blob in sides:
        is_file = blob.strip("0")  # else there is none
        size, content = reader.sized(blob) if is_file else (0, iter(()))
        yield b"literal %d\n" % size
        yield from _coded(_deflated(content, is_large=size > LARGEST_TEXT))
        yield b"\n"


def _deflated(content: Iterable[bytes], *, is_large: bool) -> Iterator[bytes]:
    deflate = zlib.compressobj(zlib.Z_BEST_SPEED if is_large else zlib.Z_DEFAULT_COMPRESSION)
    for piece in content:
        yield deflate.compress(piece)
    yield deflate.flush()


def _coded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield bytes as git writes them: a letter for the length, then base 85, LINE_BYTES a line."""
    rest = b""
    for piece in itertools.chain(pieces, [None]):
        data = rest + (piece or b"")
        end = len(data) - len(data) % LINE_BYTES if piece is not None else len(data)
        if end:
            yield b"".join(
                map(_line, (data[at : at + LINE_BYTES] for at in range(0, end, LINE_BYTES)))
            )
        rest = data[end:]


def _line(data: bytes) -> bytes:
    return LETTERS[len(data) - 1 : len(data)] + base64.b85encode(data, pad=True) + b"\n"


__all__ = ["mended", "patch_pieces", "renames"]
