"""Files and folders into a sandbox and out of it, through its toolbox.

What comes out is a claim of somebody who may be hostile: it is written by descriptors below the
folder that was named, through no link, and bounded. Links and special files are left out, by name.
"""

import asyncio
import base64
import contextlib
import errno
import os
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchyard.clients.reader import MAX_DEPTH, OPEN_FOLDER, Reader
from patchyard.domain.errors import WorkFailed
from patchyard.execution.outcomes import Outcome
from patchyard.toolbox.transfer import PIECE_BYTES

MOST_FILES = 50_000
MOST_BYTES = 2 * 1024**3
_WRITING = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Call = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class CopyResult(Outcome):
    """What was copied."""

    files: int = 0
    bytes_copied: int = 0
    skipped: tuple[str, ...] = ()  # links and special files, and what a link stood in the way of


class CopyRefused(WorkFailed):
    """The other side answered with a failure, or with what cannot be copied."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.said = code


class _Tally:
    """What was copied so far."""

    def __init__(self) -> None:
        self.files = 0
        self.size = 0
        self.skipped: list[str] = []

    def add(self, size: int) -> None:
        """Count bytes. Raises CopyRefused when they are too many."""
        self.size += size
        if self.size > MOST_BYTES or self.files > MOST_FILES:
            raise CopyRefused(
                "TOO_MUCH", f"more than {MOST_FILES} files or {MOST_BYTES} bytes are not copied"
            )

    def result(self) -> CopyResult:
        """Return the success that this is."""
        left_out = f", {len(self.skipped)} left out" if self.skipped else ""
        return CopyResult(
            success=True,
            message=f"copied {self.files} files, {self.size} bytes{left_out}",
            files=self.files,
            bytes_copied=self.size,
            skipped=tuple(self.skipped),
        )


async def copy_in(call: Call, source: Path, target: str) -> CopyResult:
    """Copy a file to `target`, or what is in a folder to below it. Raises OSError, CopyRefused."""
    tally = _Tally()
    real = await asyncio.to_thread(os.path.realpath, source, strict=True)
    if await asyncio.to_thread(os.path.isdir, real):
        with Reader(real) as reader:
            await _folder_in(call, reader, "", target, tally)
        return tally.result()
    with Reader(str(Path(real).parent)) as reader:
        await _file_in(call, reader, Path(real).name, target, tally)
    return tally.result()


async def _folder_in(call: Call, reader: Reader, path: str, target: str, tally: _Tally) -> None:
    if path.count("/") > MAX_DEPTH:
        raise CopyRefused("TOO_MUCH", f"folders below {path} are too deep")
    await _put(call, {"path": target, "folder": True})
    for name, facts in await asyncio.to_thread(reader.names, path):
        inner, place = f"{path}/{name}" if path else name, f"{target}/{name}"
        if stat.S_ISDIR(facts.st_mode):
            await _folder_in(call, reader, inner, place, tally)
        elif stat.S_ISREG(facts.st_mode):
            await _file_in(call, reader, inner, place, tally)
        else:
            tally.skipped.append(inner)


async def _file_in(call: Call, reader: Reader, path: str, target: str, tally: _Tally) -> None:
    tally.files += 1
    with reader.opened(path) as (descriptor, facts):
        offset, is_over = 0, False
        while not is_over:
            data = await asyncio.to_thread(os.pread, descriptor, PIECE_BYTES, offset)
            is_over = len(data) < PIECE_BYTES
            piece = {
                "path": target,
                "data": base64.b64encode(data).decode("ascii"),
                "offset": offset,
                "executable": bool(facts.st_mode & stat.S_IXUSR),
            }
            if data or offset == 0:
                await _put(call, piece)
            offset += len(data)
            tally.add(len(data))


async def _put(call: Call, args: Mapping[str, Any]) -> None:
    _require(await call("put_file", args))


def _require(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an answer that is a success. Raises CopyRefused for another one."""
    if payload.get("success") is True:
        return payload
    code, message = payload.get("error"), payload.get("message")
    raise CopyRefused(
        code if isinstance(code, str) else "UNKNOWN_ERROR",
        message if isinstance(message, str) else "it did not say why",
    )


async def copy_out(call: Call, source: str, target: Path) -> CopyResult:
    """Copy a file to `target`, or what is in a folder to below it. Raises OSError, CopyRefused."""
    tally = _Tally()
    listed = await call("list_directory", {"path": source})
    is_folder = listed.get("success") is True
    if not is_folder and listed.get("error") != "NOT_A_DIRECTORY":
        _require(listed)
    top = target if is_folder else target.parent
    await asyncio.to_thread(top.mkdir, parents=True, exist_ok=True)
    at = os.open(top, OPEN_FOLDER & ~os.O_NOFOLLOW)
    try:
        if is_folder:
            await _folder_out(call, source, listed, at, tally)
        else:
            await _file_out(call, source, at, target.name, tally)
    finally:
        os.close(at)
    return tally.result()


async def _folder_out(
    call: Call, path: str, listed: Mapping[str, Any], at: int, tally: _Tally, depth: int = 0
) -> None:
    """Copy what a folder of the sandbox holds into the open folder `at`."""
    if listed.get("truncated") or depth > MAX_DEPTH:
        raise CopyRefused("TOO_MUCH", f"{path} has too many entries, or is too deep")
    for name, kind in _entries(listed):
        inner = f"{path}/{name}"
        if kind == "directory":
            below = _require(await call("list_directory", {"path": inner}))
            with _made_folder(name, at) as deeper:
                if deeper is None:
                    tally.skipped.append(inner)
                else:
                    await _folder_out(call, inner, below, deeper, tally, depth + 1)
        elif kind == "file":
            await _file_out(call, inner, at, name, tally)
        else:
            tally.skipped.append(inner)


def _entries(listed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield names and types. Raises CopyRefused for what is no name in a folder."""
    rows = listed.get("contents")
    for row in rows if isinstance(rows, list) else ():
        name = row.get("name") if isinstance(row, Mapping) else None
        if not isinstance(name, str) or name in {"", ".", ".."} or "/" in name or "\0" in name:
            raise CopyRefused("UNSAFE_NAME", f"{name!r} is no name of a file")
        yield name, str(row.get("type"))


@contextlib.contextmanager
def _made_folder(name: str, at: int) -> Iterator[int | None]:
    """Yield a folder in `at`, made where it is missing; None where something else is there."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=at)
    made = _opened(name, OPEN_FOLDER, at)
    if made is None:
        yield None
        return
    try:
        yield made
    finally:
        os.close(made)


async def _file_out(call: Call, path: str, at: int, name: str, tally: _Tally) -> None:
    piece = _require(await call("get_file", {"path": path, "offset": 0}))
    mode = 0o777 if piece.get("executable") is True else 0o666
    descriptor = _opened(name, _WRITING, at, mode)
    if descriptor is None:
        tally.skipped.append(path)
        return
    tally.files += 1
    offset = 0
    try:
        while True:
            data = _bytes(piece)
            await asyncio.to_thread(_write, descriptor, data)
            offset += len(data)
            tally.add(len(data))
            if piece.get("is_last") is not False or not data:
                return
            piece = _require(await call("get_file", {"path": path, "offset": offset}))
    finally:
        os.close(descriptor)


def _opened(name: str, flags: int, at: int, mode: int = 0o777) -> int | None:
    """Open what may be written to; None where a link or something of another kind is there."""
    try:
        descriptor = os.open(name, flags, mode, dir_fd=at)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO}:
            return None
        raise
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode):
        return descriptor
    os.close(descriptor)
    return None


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _bytes(piece: Mapping[str, Any]) -> bytes:
    text = piece.get("data")
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError as error:
        raise CopyRefused("UNKNOWN_ERROR", "the sandbox sent no bytes") from error


__all__ = ["MOST_BYTES", "MOST_FILES", "Call", "CopyRefused", "CopyResult", "copy_in", "copy_out"]
