"""`put_file` and `get_file`: bytes of one file, piece by piece, in and out."""

from __future__ import annotations

import base64
import binascii
import os
import stat

from . import arguments
from .answers import Refusal, success
from .paths import Place, require_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .room import Room

PIECE_BYTES = 4 * 1024 * 1024  # in base 64 well below a frame
_WRITING = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def put_file(room: Room, args: dict[str, Any]) -> dict[str, Any]:
    """Write one piece of a file at `offset`, its end so far; 0 begins it anew.

    Missing folders are made; with `folder` the path itself is one, and no file is written.
    """
    room.require_writable()
    data = _piece(args)
    offset = _offset(args)
    with room.workspace.locate(arguments.text(args, "path"), makes_folders=True) as place:
        shown = place.relative
        if arguments.flag(args, "folder"):
            _make_folder(place)
            return success("made %s" % shown, path=shown, size=0)
        size = _write(place, data, offset, is_program=arguments.flag(args, "executable"))
    return success("%d bytes of %s" % (size, shown), path=shown, size=size)


def _piece(args: dict[str, Any]) -> bytes:
    text = arguments.text(args, "data", "")
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise Refusal("VALIDATION_ERROR", "`data` must be bytes in base 64") from None
    if len(data) > PIECE_BYTES:
        raise Refusal("VALIDATION_ERROR", "a piece has %d bytes at most" % PIECE_BYTES)
    return data


def _offset(args: dict[str, Any]) -> int:
    offset = arguments.whole(args, "offset") or 0
    if not 0 <= offset < 1 << 62:
        raise Refusal("VALIDATION_ERROR", "`offset` must be 0 or more")
    return offset


def _make_folder(place: Place) -> None:
    found = place.stat()
    if found is None:
        os.mkdir(place.name, dir_fd=place.parent)
    elif not stat.S_ISDIR(found.st_mode):
        raise Refusal("NOT_A_DIRECTORY", "%s is no folder" % place.relative)


def _write(place: Place, data: bytes, offset: int, *, is_program: bool) -> int:
    """Return the file's size after the piece."""
    old = place.stat()
    if old is not None:
        require_regular(old, place.relative)
    fd = os.open(place.name, _WRITING, 0o777 if is_program else 0o666, dir_fd=place.parent)
    with open(fd, "wb", buffering=0) as file:
        if old is not None and is_program:
            os.fchmod(fd, (old.st_mode & 0o777) | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        if offset == 0:
            file.truncate()
        elif os.fstat(fd).st_size != offset:
            message = "%s does not end at byte %d: begin anew" % (place.relative, offset)
            raise Refusal("CONFLICT", message)
        file.seek(offset)
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
        return offset + len(data)


def get_file(room: Room, args: dict[str, Any]) -> dict[str, Any]:
    """Return at most PIECE_BYTES of a file from `offset`, and whether that was the last piece."""
    offset = _offset(args)
    with room.workspace.locate(arguments.text(args, "path")) as place:
        fd, found = place.open_file()
        with open(fd, "rb", buffering=0) as file:
            file.seek(offset)
            data = file.read(PIECE_BYTES)
        shown = place.relative
    end = offset + len(data)
    return success(
        "bytes %d to %d of %s" % (offset, end, shown),
        path=shown,
        data=base64.b64encode(data).decode("ascii"),
        size=found.st_size,
        is_last=len(data) < PIECE_BYTES,
        executable=bool(found.st_mode & stat.S_IXUSR),
    )


__all__ = ["PIECE_BYTES", "get_file", "put_file"]
