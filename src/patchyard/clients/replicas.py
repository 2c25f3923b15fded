"""Keeps a workspace at home and its replica in an environment equal: what changed travels, no more.

For every kind that cannot see the workspace's mount. What the two last agreed on is remembered on
both sides, by the far toolbox and here. A difference to that on the far side was made by what ran
there, and comes home; any other one was made at home, and goes there. So a killed engine loses
nothing: the far side still differs from what was agreed until all of it is home, and whoever
attaches next brings it, once more where some of it had come already.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from patchyard.clients.far_claims import (
    ON_HOST,
    Bounds,
    FarLook,
    FarPlace,
    are_alike,
    beyond_bounds,
    chars_of,
    checked_gone,
    checked_left_out,
    checked_rows,
    listed,
    lying,
    require_folders,
    texts_of,
)
from patchyard.clients.home_room import HomeRoom
from patchyard.clients.path_mapping import PathMapping
from patchyard.clients.pieces import Piece, decoded, ends_of_zeros, grouped
from patchyard.clients.signs import with_signs
from patchyard.clients.tenures import Tenure
from patchyard.contracts.environment import Toolbox
from patchyard.domain.errors import EnvironmentBroken
from patchyard.domain.machine import is_full_disk, is_of_machine, refused_by_machine
from patchyard.engine.answers import whole
from patchyard.toolbox.holes import encoded
from patchyard.toolbox.trees import FILE, FOLDER, LINK, Entry, Record, digest_of
from patchyard.toolbox.twins import NoRoom, Twin, Unfinished

BATCH_BYTES = 4 * 1024 * 1024  # of contents in one request; a frame holds 32 MiB
BATCH_ROWS = 5000
OP_TIMEOUT_S = 300.0  # one batch over a slow line
PAGE_ROWS = 1000  # that each page but the last brings at least: an honest one brings 20,000
TRIES = 3  # of bringing home what changes under our eyes


class Replica:
    """One pair: the tree at home, and the workspace of a far toolbox."""

    def __init__(
        self,
        toolbox: Toolbox,
        home: Twin,
        mapping: PathMapping,
        *,
        tenure: Tenure,
        bounds: Bounds | None = None,
        room: HomeRoom | None = None,  # for what comes home
        place: FarPlace = ON_HOST,  # that the replica lies in
    ) -> None:
        """Take a toolbox, the tree at home (closed by `close`), where each lies, and our time."""
        self._toolbox = toolbox
        self._home = home
        self._mapping = mapping
        self._tenure = tenure
        self._bounds = bounds or Bounds()
        self.room = room or HomeRoom()
        self._place = place
        self._token = os.urandom(6).hex()
        self._requests = 0
        self.left_out: Sequence[tuple[str, str]] = ()  # at the last look: what stays there, why

    async def close(self) -> None:
        """Let go of the tree at home."""
        await whole(asyncio.to_thread(self._home.close))
        self.room.close()

    async def rest(self) -> None:
        """Take little memory until the next exchange."""
        if self._home.is_large:
            await whole(asyncio.to_thread(self._home.rest))

    async def recover(self, *, takes_home: bool) -> bool:
        """Make both equal, whatever happened before; return whether something runs there.

        With `takes_home` the far side's changes come home first. Raises EnvironmentBroken, or
        Unavailable where this machine's disk is the trouble.
        """
        self._tenure.begin()
        is_busy = False
        if takes_home:
            await self._at_home(self._home.sweep)
            is_busy = await self.bring_home()
        known = {
            path: self._translated(entry, self._mapping.outward)
            for path, entry in (await self._known()).items()
        }
        look = await whole(asyncio.to_thread(self._home.look))
        agreed = self._home.agreed
        for path in look.gone:
            agreed.pop(path, None)
        changed = {}
        for path, record in look.changed.items():
            if path in known and are_alike(known[path], record.entry):
                agreed[path] = record
            else:
                changed[path] = record
        gone = [path for path in known if path not in agreed and path not in changed]
        await self._push(gone, changed)
        return is_busy

    async def bring_in(self) -> None:
        """Give the replica what changed at home. Raises EnvironmentBroken."""
        look = await whole(asyncio.to_thread(self._home.look))
        await self._push(look.gone, look.changed)

    async def _push(self, gone: Sequence[str], changed: Mapping[str, Record]) -> None:
        agreed = self._home.agreed
        inner_first = sorted(gone, key=lambda path: -path.count("/"))
        for start in range(0, len(gone), BATCH_ROWS):
            part = inner_first[start : start + BATCH_ROWS]
            await self._ask("replica_put", {"gone": part})
            for path in part:
                agreed.pop(path, None)
        wanted = await self._send(changed, with_content=False)
        if wanted:
            await self._send({path: changed[path] for path in wanted}, with_content=True)
        folders = [self._row(p, r.entry) for p, r in changed.items() if r.entry.kind == FOLDER]
        for start in range(0, len(folders), BATCH_ROWS):
            await self._ask("replica_put", {"folders": folders[start : start + BATCH_ROWS]})

    async def _send(self, changed: Mapping[str, Record], *, with_content: bool) -> list[str]:
        """Send entries in batches; return those that turn out to need their content."""
        wanted: list[str] = []
        batches = self._batches(changed, with_content=with_content)
        while (batch := await whole(asyncio.to_thread(next, batches, None))) is not None:
            rows, complete = batch
            answer = await self._ask("replica_put", {"entries": rows})
            asked = set(complete).intersection(texts_of(answer.get("wanted")))
            wanted += asked
            for path in complete:
                if path not in asked:
                    self._home.agreed[path] = changed[path]
        return wanted

    def _batches(
        self, changed: Mapping[str, Record], *, with_content: bool
    ) -> Iterator[tuple[list[list[Any]], list[str]]]:
        """Yield rows that fit in one request, and the paths that are whole with them."""
        rows: list[list[Any]] = []
        complete: list[str] = []
        size = 0
        for path in sorted(changed):
            entry = changed[path].entry
            for fields, is_last in self._pieces(path, entry, with_content=with_content):
                rows.append([*self._row(path, entry), *fields])
                if is_last:
                    complete.append(path)
                size += len(fields[1]) if isinstance(fields[1], str) else 0
                if size >= BATCH_BYTES or len(rows) >= BATCH_ROWS:
                    yield rows, complete
                    rows, complete, size = [], [], 0
        if rows:
            yield rows, complete

    def _pieces(
        self, path: str, entry: Entry, *, with_content: bool
    ) -> Iterator[tuple[tuple[int, str | int | None], bool]]:
        """Yield a file's pieces, offset and data (or how many zeros) each.

        No last one where it changes under our eyes.
        """
        before = self._home.agreed.get(path)
        is_same = before is not None and before.entry.mark == entry.mark
        if entry.kind != FILE or (is_same and not with_content):
            yield (0, None), True
            return
        digest, offset = digest_of(), 0
        while True:
            try:
                data = self._home.read(path, offset, min(BATCH_BYTES, entry.size - offset))
            except OSError:
                return  # the next look tells what became of it
            data = min(data, entry.size - offset) if isinstance(data, int) else data
            digest.take(data)
            end = offset + (data if isinstance(data, int) else len(data))
            is_last = end >= entry.size
            if (not data and not is_last) or (is_last and digest.hexdigest() != entry.mark):
                return
            yield (offset, encoded(data)), is_last
            offset = end
            if is_last:
                return

    def _row(self, path: str, entry: Entry) -> list[Any]:
        return [path, *self._translated(entry, self._mapping.inward)]

    async def bring_home(self) -> bool:
        """Take home what changed in the replica; return whether something runs there still.

        Then it may have changed again, and what changed under our eyes waits for the next time.
        Raises EnvironmentBroken for claims that cannot be, Unavailable where this disk is full.
        """
        for _ in range(TRIES):
            look = await self._look()
            self.room.consider(look.entries)
            lacking = await self._take(look) if look.entries or look.gone else set()
            self.left_out = [*look.left_out, *self.room.left_out]
            if not lacking or look.is_busy:
                return look.is_busy
        raise lying(f"the content of {min(lacking)!r}, which is not what comes")

    async def _look(self) -> FarLook:
        answer = await self._ask("replica_look", {})
        rows, gone = await self._paged(answer)
        return await whole(asyncio.to_thread(self._checked, answer, rows, gone))

    def _checked(self, answer: Mapping[str, Any], rows: list[Any], gone: list[Any]) -> FarLook:
        """Return a look once all of it can be."""
        entries = checked_rows(rows, self._bounds)
        beyond = beyond_bounds(entries, self._bounds)
        translated = {
            path: self._translated(entry, self._mapping.outward)
            for path, entry in entries.items()
            if path not in beyond
        }
        look = FarLook(
            number=int(answer["look"]),
            entries=translated,
            gone=checked_gone(gone, self._bounds),
            left_out=[*checked_left_out(answer.get("left_out")), *sorted(beyond.items())],
            beyond=beyond.keys(),
            is_busy=answer.get("is_busy") is not False,
        )
        require_folders(look, self._home.agreed)
        return look

    async def _known(self) -> Mapping[str, Entry]:
        answer = await self._ask("replica_known", {})
        rows, _ = await self._paged(answer)
        return await whole(asyncio.to_thread(checked_rows, rows, self._bounds))

    async def _paged(self, answer: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """Return all rows of a look, and all that is gone."""
        rows: list[Any] = []
        gone: list[Any] = []
        chars = 0
        number = answer.get("look")
        if type(number) is not int:
            raise lying("a look without a number")
        while True:
            come, left = listed(answer, "entries"), listed(answer, "gone")
            rows += come
            gone += left
            chars += chars_of(come) + chars_of(left)
            if len(rows) + len(gone) > self._bounds.entries or chars > self._bounds.path_chars:
                raise lying("more entries than one exchange may bring")
            offset = answer.get("next")
            if not offset:
                return rows, gone
            if type(offset) is not int or len(come) + len(left) < PAGE_ROWS:
                raise lying("a page that holds next to nothing")
            answer = await self._ask("replica_page", {"look": number, "offset": offset})

    async def _take(self, look: FarLook) -> set[str]:
        """Do at home what was done there; return the files whose content was another by then.

        What there is no room for stays there, and differs on.
        """
        files: list[str] = await self._at_home(self._prepared, look)
        sizes = [(path, look.entries[path].size) for path in files]
        lacking: set[str] = set()
        try:
            reached: dict[str, int] = {}
            for group in grouped(
                sizes, most_bytes=BATCH_BYTES, most_pieces=BATCH_ROWS, reached=reached
            ):
                refused = self.room.refused
                wanted = [piece for piece in group if piece.path not in refused]
                lacking |= await self._fetch(look, wanted, reached) if wanted else set()
        finally:
            await whole(asyncio.to_thread(self._home.give_up))
        await self._at_home(self._finished, look)
        without = sorted(lacking | await self._at_home(self._without, look))
        await self._ask("replica_settle", {"look": look.number, "without": without})
        return lacking

    def _without(self, look: FarLook) -> set[str]:
        """Return what stays there."""
        return {*look.beyond, *filter(self.room.has_refused, look.entries)}

    def _prepared(self, look: FarLook) -> list[str]:
        """Delete what is gone, make folders and links; return the files that need content."""
        self._home.remove(list(look.gone))
        self.room.begin(self._home, look.entries)
        files = []
        for path in sorted(look.entries):
            entry = look.entries[path]
            if self.room.has_refused(path):
                continue
            if entry.kind != FILE:
                self._put(path, entry)
            elif not self._home.adjust(path, entry):
                files.append(path)
        return files

    def _put(self, path: str, entry: Entry) -> None:
        try:
            self._home.put(path, entry)
        except NoRoom:
            self.room.refuse(path, entry, self._home)

    def _finished(self, look: FarLook) -> None:
        """Give the folders their modes, inner ones first."""
        self.room.end(self._home)
        without = self._without(look)
        for path, entry in sorted(look.entries.items(), reverse=True):
            if entry.kind == FOLDER and path not in without:
                self._home.finish(path, entry)

    async def _fetch(
        self, look: FarLook, group: Sequence[Piece], reached: dict[str, int]
    ) -> set[str]:
        """Write some pieces of files; return the files that did not come as announced."""
        args = {"look": look.number, "pieces": [list(piece) for piece in group]}
        answer = (await self._ask("replica_get", args)).get("pieces")
        if not isinstance(answer, list) or len(answer) != len(group):
            raise lying("an answer without the pieces that were asked for")
        contents = [decoded(each) for each in answer]
        reached |= ends_of_zeros(group, contents)

        def write() -> set[str]:
            return {
                piece.path
                for piece, data in zip(group, contents, strict=True)
                if not self._write(piece, look.entries[piece.path], data)
            }

        lacking: set[str] = await self._at_home(write)
        return lacking

    def _write(self, piece: Piece, entry: Entry, data: bytes | int | None) -> bool:
        """Write a piece, or zeros; False where it is not what was announced."""
        if data is None or not piece.is_answered_by(data):
            self._home.give_up()
            return False
        try:
            self._home.write(piece.path, entry, piece.offset, data)
        except Unfinished:
            return piece.path in self.room.refused  # an earlier piece found no room
        except NoRoom:
            self.room.refuse(piece.path, entry, self._home)
        return True

    async def _at_home(self, function: Callable[..., Any], *args: Any) -> Any:
        """Do something to the tree at home, to its end. Raises EnvironmentBroken, Unavailable."""

        def done() -> Any:
            self._tenure.require()
            return function(*args)

        try:
            return await whole(asyncio.to_thread(done))
        except OSError as error:
            if is_of_machine(error):
                raise refused_by_machine(error) from error
            raise EnvironmentBroken(
                f"what the far side claims cannot be done at home: {os.strerror(error.errno or 0)}",
                hint=self._place.other,
            ) from error

    async def _ask(self, op: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the far toolbox. Raises EnvironmentBroken when it cannot or does not answer."""
        self._tenure.require()
        self._requests += 1
        call_id = f"replica-{self._token}-{self._requests}"
        try:
            async with asyncio.timeout(OP_TIMEOUT_S):
                calling = self._toolbox.call(call_id, op, args)
                answer = await with_signs(calling, self._toolbox)
        except TimeoutError as error:
            text = f"the replica did not answer within {OP_TIMEOUT_S:g} s"
            raise EnvironmentBroken(text) from error
        await self._toolbox.forget((call_id,))
        if answer.get("success") is not True:
            said = str(answer.get("message"))[:500]
            hint = self._place.full if is_full_disk(said) else self._place.other
            raise EnvironmentBroken(f"the copy of the workspace cannot be kept: {said}", hint=hint)
        return answer

    def _translated(self, entry: Entry, move: Callable[[str], str]) -> Entry:
        return entry._replace(mark=move(entry.mark)) if entry.kind == LINK else entry


__all__ = ["BATCH_BYTES", "BATCH_ROWS", "OP_TIMEOUT_S", "PAGE_ROWS", "TRIES", "Replica"]
