"""`read_file`, `write_file` and `delete_file`."""

from __future__ import annotations

import base64
import os
import stat

from . import arguments
from .answers import Refusal, success
from .linediff import count_changes
from .paths import Place, require_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .room import Room

PAGE_LINES = 1000  # D+: MAX_LINES_PER_READ
PAGE_BYTES = 2 * 1024 * 1024
MAX_FILE_BYTES = 50 * 1024 * 1024  # D+: MAX_FILE_SIZE_MB
BINARY_PROBE_BYTES = 8192
PICTURE_BYTES = 1024 * 1024  # of a picture that a result holds
_PICTURES = (  # media type, how such a file begins, and a mark at some place
    ("image/png", b"\x89PNG\r\n\x1a\n", 12, b"IHDR"),
    ("image/jpeg", b"\xff\xd8\xff", 0, b""),
    ("image/gif", b"GIF8", 5, b"a"),
    ("image/webp", b"RIFF", 8, b"WEBP"),
)


def read_file(room: Room, args: dict[str, Any]) -> dict[str, Any]:
    """Return a page of a text file: content, total_lines, start_line, end_line."""
    wanted_start, wanted_end = (
        arguments.whole(args, "start_line"),
        arguments.whole(args, "end_line"),
    )
    if wanted_start is not None and wanted_end is not None and wanted_end < wanted_start:
        message = "Invalid line range: end_line %d is before start_line %d"
        raise Refusal("VALIDATION_ERROR", message % (wanted_end, wanted_start))
    with room.workspace.locate(arguments.text(args, "path")) as place:
        content = read_text(place)
        shown = place.relative
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    total = len(lines)
    start = min(max(wanted_start or 1, 1), max(total, 1))
    end = min(total, start + PAGE_LINES - 1, max(wanted_end or total, start))
    if total <= PAGE_LINES and start == 1 and end == total and len(content) <= PAGE_BYTES:
        page, is_cut = content, False
    else:
        ends_open = end == total and not content.endswith(b"\n")
        page, end, is_cut = _page(lines, start, end, ends_open=ends_open)
    return success(
        "lines %d to %d of %d of %s" % (start if total else 0, end, total, shown),
        content=page.decode("utf-8", "surrogateescape"),
        total_lines=total,
        start_line=start if total else 0,
        end_line=end,
        size=len(content),
        truncated=is_cut,
        path=shown,
    )


def _page(lines: list[bytes], start: int, end: int, *, ends_open: bool) -> tuple[bytes, int, bool]:
    """Return lines `start` to `end`, as many as PAGE_BYTES hold; at least a part of the first."""
    taken: list[bytes] = []
    size = 0
    for line in lines[start - 1 : end]:
        size += len(line) + 1
        if size > PAGE_BYTES:
            if not taken:
                return line[:PAGE_BYTES], start, True
            return b"\n".join(taken) + b"\n", start + len(taken) - 1, True
        taken.append(line)
    return b"\n".join(taken) + (b"" if ends_open else b"\n"), end, False


def read_text(place: Place) -> bytes:
    """Return the content of a text file. Raises Refusal for what is none, or too large."""
    fd, found = place.open_file()
    with open(fd, "rb") as file:
        if found.st_size > MAX_FILE_BYTES:
            message = "%s has %d bytes; the limit is %d: take a part of it by a command"
            shown = message % (place.relative, found.st_size, MAX_FILE_BYTES)
            raise Refusal("FILE_TOO_LARGE", shown, size=found.st_size)
        content = file.read(MAX_FILE_BYTES + 1)
    if b"\0" in content[:BINARY_PROBE_BYTES]:
        message = "%s is binary, %d bytes" % (place.relative, found.st_size)
        raise Refusal("BINARY_FILE", message, size=found.st_size, **_pictures(content))
    return content


def _pictures(content: bytes) -> dict[str, Any]:
    """Return the field `images` for a picture of a known format that is not too large, or none."""
    if len(content) > PICTURE_BYTES:
        return {}
    for media_type, start, place, mark in _PICTURES:
        if content.startswith(start) and content[place : place + len(mark)] == mark:
            data = base64.b64encode(content).decode("ascii")
            return {"images": [{"media_type": media_type, "data": data}]}
    return {}


def write_file(room: Room, args: dict[str, Any]) -> dict[str, Any]:
    """Write a whole file, atomically; missing folders are made and an old mode is kept."""
    room.require_writable()
    content = arguments.data(args, "content")
    path = arguments.text(args, "path")
    if path.endswith("/"):
        raise Refusal("IS_A_DIRECTORY", "%s names a folder" % path)
    with room.workspace.locate(path, makes_folders=True) as place:
        old = _old_content(place)
        replace(place, content)
        shown = place.relative
    added, removed = count_changes(old or b"", content)
    return success(
        "%s %s: +%d -%d lines" % ("created" if old is None else "replaced", shown, added, removed),
        is_new_file=old is None,
        lines_added=added,
        lines_removed=removed,
        path=shown,
        paths=[shown],
    )


def _old_content(place: Place) -> bytes | None:
    if place.stat() is None:
        return None
    fd, found = place.open_file()
    with open(fd, "rb") as file:
        return file.read(found.st_size) if found.st_size <= MAX_FILE_BYTES else b""


def replace(place: Place, content: bytes) -> None:
    """Put `content` there in one step: a reader sees the old file or the new one, never a part."""
    if not place.name:
        raise Refusal("IS_A_DIRECTORY", "the workspace itself is a folder")
    old = place.stat()
    if old is not None:
        require_regular(old, place.relative)
    temporary = b".patchyard-" + os.urandom(8).hex().encode()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o666, dir_fd=place.parent)
    try:
        with open(fd, "wb") as file:
            file.write(content)
            if old is not None:
                os.fchmod(fd, old.st_mode & 0o777)
        os.replace(temporary, place.name, src_dir_fd=place.parent, dst_dir_fd=place.parent)
    except BaseException:
        os.unlink(temporary, dir_fd=place.parent)
        raise


def delete_file(room: Room, args: dict[str, Any]) -> dict[str, Any]:
    """Delete a file, or a link itself; one that is not there is a success."""
    room.require_writable()
    path = arguments.text(args, "path")
    try:
        with room.workspace.locate(path, follows_last=False) as place:
            shown, is_deleted = place.relative, _unlink(place)
    except Refusal as refusal:
        if refusal.result["error"] != "FILE_NOT_FOUND":
            raise
        shown, is_deleted = path, False
    if not is_deleted:
        return success("%s was not there" % shown, was_already_deleted=True, path=shown, paths=[])
    return success("deleted %s" % shown, was_already_deleted=False, path=shown, paths=[shown])


def _unlink(place: Place) -> bool:
    found = place.stat()
    if found is None:
        return False
    if not place.name or stat.S_ISDIR(found.st_mode):
        raise Refusal("IS_A_DIRECTORY", "%s is a folder" % place.relative)
    os.unlink(place.name, dir_fd=place.parent)
    return True


__all__ = [
    "BINARY_PROBE_BYTES",
    "MAX_FILE_BYTES",
    "PAGE_BYTES",
    "PAGE_LINES",
    "delete_file",
    "read_file",
    "read_text",
    "replace",
    "write_file",
]
