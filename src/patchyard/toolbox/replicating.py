"""The operations by which a workspace is kept equal to the one at home, where it is but a copy.

What the last exchange left here is remembered, so that only what changed since travels. Paths and
link targets travel as texts, contents in base 64, zeros as their number; a list that is long
travels in pages. An entry is `[path, kind, mode, mtime, size, mark]`; in `replica_put` a file's
has its piece after that, `[..., offset, data]`, no piece for one that only gets another mode or
time.
"""

from __future__ import annotations

import base64
import binascii
import os
import time

from . import arguments, processes
from .answers import Refusal, success
from .holes import encoded
from .trees import FILE, FOLDER, LINK, Entry, Look
from .twins import Twin, Unfinished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Generator, Iterator, TypeVar

    from .room import Room

    Found = TypeVar("Found")

PAGE_ENTRIES = 20_000
GET_BYTES = 8 * 1024 * 1024  # of one answer; a frame holds 32 MiB
TURN_S = 0.001  # between two questions whether another look is over
COMPLETING_S = 3.0  # that the look after a call may take; its result is waited for some seconds


class Replica:
    """The workspace as a replica, and the last look at it."""

    def __init__(self, root: str) -> None:
        self.twin = Twin(root)
        self.look = Look()
        self.rows: list[list[Any]] = []  # what is given out in pages
        self.gone: list[str] = []
        self.number = 0  # of the look
        self.early: tuple[int, Look] | None = None  # taken after a call; how many had begun then
        self._is_looking = False

    def completing(self, room: Room) -> Callable[[dict[str, Any], Callable[[], None]], None]:
        """Return what adds `replica` to a call's result: `is_same`, `is_busy`.

        So nobody has to ask for a look where the call has changed nothing. One that found a change
        is kept for who asks next, unless anything can have happened since. One that takes long is
        given up: the result says that all may have changed.
        """

        def complete(result: dict[str, Any], done: Callable[[], None]) -> None:
            room.loop.step_through(self._completed(room, result, done))

        return complete

    def _completed(
        self, room: Room, result: dict[str, Any], done: Callable[[], None]
    ) -> Iterator[float]:
        try:
            begun, is_busy, look = yield from _within(COMPLETING_S, self.looked(room))
            if not is_busy:
                self.early = begun, look
            is_same = not (look.changed or look.gone or look.left_out)
            result["replica"] = {"is_same": is_same, "is_busy": is_busy}
        except Exception:  # noqa: BLE001 - the call is over; who asks for a look is told why
            result["replica"] = {"is_same": False, "is_busy": True}
        done()

    def looked(self, room: Room) -> Generator[float, None, tuple[int, bool, Look]]:
        """Take a look: how many calls had begun before it, whether anything ran, what it found.

        One at a time: what one opens to itself on its way would be a change to another.
        """
        while self._is_looking:
            yield TURN_S
        self._is_looking = True
        try:
            begun, is_busy = room.begun, is_anything_running()
            return begun, is_busy, (yield from self.twin.looking())
        finally:
            self._is_looking = False

    def taken_early(self, begun: int) -> Look | None:
        """Return the look after the last call, where only the one that asks has begun since."""
        early, self.early = self.early, None
        return early[1] if early is not None and early[0] == begun - 1 else None

    def close(self) -> None:
        """Release what is open."""
        self.twin.close()


def _within(seconds: float, work: Generator[float, None, Found]) -> Generator[float, None, Found]:
    """Go through `work` for so long; it is closed then. Raises RuntimeError."""
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            yield next(work)
    except StopIteration as done:
        found: Found = done.value
        return found
    finally:
        work.close()
    raise RuntimeError("it takes longer than %g s" % seconds)


def _replica(room: Room) -> Replica:
    if room.replica is None:
        own = room.settings.replica_fd  # writable, where the path may not be
        room.replica = Replica(room.workspace.root if own < 0 else "/proc/self/fd/%d" % own)
    return room.replica


def replica_look(room: Room, _args: dict[str, Any]) -> Generator[float, None, dict[str, Any]]:
    """Return what became of the replica since the two were equal: `entries`, `gone`, `left_out`."""
    replica = _replica(room)
    look = replica.taken_early(room.begun)
    is_busy = False
    if look is None:  # what runs now and ends later is seen by the next look
        _, is_busy, look = yield from replica.looked(room)
    replica.look = look
    replica.number += 1
    replica.rows = [[path, *record.entry] for path, record in sorted(look.changed.items())]
    replica.gone = sorted(look.gone)
    return _page(replica, 0, is_busy=is_busy, left_out=look.left_out[:PAGE_ENTRIES])


def replica_known(room: Room, _args: dict[str, Any]) -> dict[str, Any]:
    """Return what the replica and the tree at home both held when they were last equal."""
    replica = _replica(room)
    replica.twin.give_up()  # whoever asks begins anew
    agreed = replica.twin.agreed
    replica.look = Look()
    replica.number += 1
    replica.gone = []
    replica.rows = [[path, *record.entry] for path, record in sorted(agreed.items())]
    return _page(replica, 0)


def replica_page(room: Room, args: dict[str, Any]) -> dict[str, Any]:
    """Return more of what the last look or `replica_known` gave."""
    replica = _of_look(room, args)
    return _page(replica, arguments.whole(args, "offset") or 0)


def _page(replica: Replica, offset: int, **fields: Any) -> dict[str, Any]:
    entries = replica.rows[offset : offset + PAGE_ENTRIES]
    gone = replica.gone[offset : offset + PAGE_ENTRIES]
    longest = max(len(replica.rows), len(replica.gone))
    return success(
        "%d entries" % len(replica.rows),
        look=replica.number,
        entries=entries,
        gone=gone,
        total=[len(replica.rows), len(replica.gone)],
        next=offset + PAGE_ENTRIES if longest > offset + PAGE_ENTRIES else 0,
        **fields,
    )


def replica_get(room: Room, args: dict[str, Any]) -> dict[str, Any]:
    """Return pieces of files, `[path, offset, length]` each; null for one that cannot be read.

    Of one that is but a hole it is how many zeros there are, also those beyond `length`.
    """
    replica = _of_look(room, args)
    pieces: list[str | int | None] = []
    total = 0
    for path, offset, length in _rows(args, "pieces", 3):
        total += length
        if total > GET_BYTES:
            raise Refusal("VALIDATION_ERROR", "%d bytes at a time" % GET_BYTES)
        try:
            data = replica.twin.read(path, offset, length)
        except OSError:
            pieces.append(None)
        else:
            pieces.append(encoded(data))
    return success("read", pieces=pieces)


def replica_settle(room: Room, args: dict[str, Any]) -> dict[str, Any]:
    """Take what the last look found for agreed: it is at home now, but for the paths `without`."""
    replica = _of_look(room, args)
    without = {path for (path,) in _rows(args, "without", 1)}
    replica.twin.agree(replica.look, without=without)
    replica.look = Look()
    return success("agreed")


def replica_put(room: Room, args: dict[str, Any]) -> dict[str, Any]:
    """Take over what the tree at home became: `gone`, then `entries`, then modes of `folders`.

    Done in a workspace that calls may only read, too. What could not be adjusted without its
    content is listed as `wanted`.
    """
    twin = _replica(room).twin
    twin.remove([path for (path,) in _rows(args, "gone", 1)])
    wanted = []
    for path, *fields, offset, data in _rows(args, "entries", 8):
        entry = Entry(*fields)
        if entry.kind in (FOLDER, LINK):
            twin.put(path, entry)
        elif entry.kind == FILE and data is not None:
            _write(twin, path, entry, offset, data)
        elif not twin.adjust(path, entry):
            wanted.append(path)
    for path, *fields in _rows(args, "folders", 6):
        twin.finish(path, Entry(*fields))
    return success("taken over", wanted=wanted)


def _write(twin: Twin, path: str, entry: Entry, offset: int, data: str | int) -> None:
    try:
        part = data if isinstance(data, int) else base64.b64decode(data, validate=True)
        twin.write(path, entry, offset, part)
    except (Unfinished, binascii.Error) as error:
        message = "%s is not what was announced" % path
        raise Refusal("VALIDATION_ERROR", message) from error


def _of_look(room: Room, args: dict[str, Any]) -> Replica:
    """Return the replica; what is asked belongs to its last look."""
    replica = _replica(room)
    if arguments.whole(args, "look") != replica.number:
        raise Refusal("VALIDATION_ERROR", "another look has been taken since")
    return replica


def _rows(args: dict[str, Any], name: str, width: int) -> list[list[Any]]:
    """Return a list of rows; where one field is a row, the fields themselves."""
    given = args.get(name) or []
    if width == 1 and isinstance(given, list):
        given = [[each] for each in given]
    if not isinstance(given, list) or any(
        not isinstance(row, list) or len(row) != width or not isinstance(row[0], str)
        for row in given
    ):
        raise Refusal("VALIDATION_ERROR", "argument %r must be a list of rows" % name)
    return given


def is_anything_running() -> bool:
    """Whether anything that was started here still runs."""
    own = os.getpid()
    try:
        with open("/proc/self/task/%d/children" % own, "rb") as file:
            return bool(file.read().strip())
    except OSError:  # this kernel does not say
        return any(row.parent == own for row in processes.snapshot().values())


__all__ = [
    "COMPLETING_S",
    "GET_BYTES",
    "PAGE_ENTRIES",
    "Replica",
    "is_anything_running",
    "replica_get",
    "replica_known",
    "replica_look",
    "replica_page",
    "replica_put",
    "replica_settle",
]
