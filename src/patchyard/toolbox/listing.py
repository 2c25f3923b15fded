"""`list_directory` and `search_files`."""

from __future__ import annotations

import os
import time

from . import arguments
from .alarm import in_time
from .answers import Refusal, success
from .globs import Glob, is_glob
from .walking import Unread, entries, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Generator

    from .room import Room

MAX_ENTRIES = 5000
MAX_FILES = 100  # D+: the cap of the sidecar
DEADLINE_S = 20.0
FILES_A_STEP = 500
STEP_LIMIT_S = 2.0


def list_directory(
    room: Room, args: dict[str, Any]
) -> dict[str, Any] | Generator[float, None, dict[str, Any]]:
    """Return a folder's entries, folders first; with `recursive` those of its folders too."""
    is_recursive = arguments.flag(args, "recursive")
    asked = arguments.text(args, "path", ".")
    try:
        with room.workspace.locate(asked or ".") as place:
            shown = place.relative
            folder = place.open_folder()
    except Refusal as refusal:
        if refusal.result["error"] != "FILE_NOT_FOUND":
            raise
        raise Refusal("DIRECTORY_NOT_FOUND", "no folder %s" % asked) from None
    if is_recursive:
        return _list_below(folder, shown)
    try:
        with os.scandir(folder) as listed:
            rows = [_row(entry) for entry in listed]
    finally:
        os.close(folder)
    rows.sort(key=lambda row: (not row["is_directory"], row["name"]))
    return _listed(shown, rows[:MAX_ENTRIES], len(rows), is_cut=len(rows) > MAX_ENTRIES)


def _list_below(folder: int, shown: str) -> Generator[float, None, dict[str, Any]]:
    """List the open `folder`, which is closed at the end, and what is below it."""
    deadline = time.monotonic() + DEADLINE_S
    rows: list[dict[str, Any]] = []
    total, is_late, unread = 0, False, Unread()
    try:
        for found in entries(folder, "", unread=unread):
            if total % FILES_A_STEP == 0:
                yield 0.0
            total += 1
            if len(rows) < MAX_ENTRIES:
                rows.append({**_row(found.entry), "relative_path": found.path})
            is_late = time.monotonic() > deadline
            if is_late:
                break
    finally:
        os.close(folder)
    is_cut = is_late or total > len(rows)
    return {**_listed(shown, rows, total, is_cut=is_cut), "unreadable": unread.count}


def _listed(shown: str, rows: list[dict[str, Any]], total: int, *, is_cut: bool) -> dict[str, Any]:
    return success(
        "%d entries in %s" % (total, shown),
        path=shown,
        contents=rows,
        total_count=total,
        truncated=is_cut,
    )


def _row(entry: os.DirEntry[str]) -> dict[str, Any]:
    is_directory = entry.is_dir(follow_symlinks=False)
    kind = "file"
    if is_directory:
        kind = "directory"
    elif entry.is_symlink():
        kind = "link"
    elif not entry.is_file(follow_symlinks=False):
        kind = "special"
    return {"name": entry.name, "type": kind, "is_directory": is_directory}


def search_files(room: Room, args: dict[str, Any]) -> Generator[float, None, dict[str, Any]]:
    """Find files by part of their name, or by a pattern."""
    return in_time(_search(room, args), STEP_LIMIT_S)


def _search(room: Room, args: dict[str, Any]) -> Generator[float, None, dict[str, Any]]:
    query = arguments.text(args, "query").strip()
    if not query:
        raise Refusal("VALIDATION_ERROR", "`query` is empty")
    fits = _fitting(query)
    deadline = time.monotonic() + DEADLINE_S
    files: list[str] = []
    is_cut, unread = False, Unread()
    with room.workspace.locate(".") as place:
        top = place.open_folder()
    try:
        for number, found in enumerate(walk(top, "", unread=unread)):
            if number % FILES_A_STEP == 0:
                yield 0.0
            if fits(found.path):
                files.append(found.path)
            if len(files) > MAX_FILES or time.monotonic() > deadline:
                is_cut = True
                break
    finally:
        os.close(top)
    files = files[:MAX_FILES]
    return success(
        "%d files for %s" % (len(files), query),
        files=files,
        query=query,
        count=len(files),
        truncated=is_cut,
        unreadable=unread.count,
    )


def _fitting(query: str) -> Callable[[str], bool]:
    wanted = query.lower().lstrip("/")
    is_of_path = "/" in wanted

    def has_part(path: str) -> bool:
        where = path if is_of_path else path.rpartition("/")[2]
        return wanted in where.lower()

    if not is_glob(query):
        return has_part
    fits = Glob(query).matches
    return lambda path: fits(path) or has_part(path)  # `[id].tsx` is a name too


__all__ = [
    "DEADLINE_S",
    "FILES_A_STEP",
    "MAX_ENTRIES",
    "MAX_FILES",
    "STEP_LIMIT_S",
    "list_directory",
    "search_files",
]
