"""One plan as one object: its events to the letter, what they name, receipt and patch."""

import base64
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchyard.contracts.journal import Journal, StoredEvent
from patchyard.domain.chain import Entry
from patchyard.engine.equipment import Equipment
from patchyard.engine.handing import Handing
from patchyard.engine.ledger import PLAN, Ledger
from patchyard.engine.report import plan_data
from patchyard.engine.rows import WHOLE, from_row
from patchyard.engine.verifying import bodies_of, verify

FORMAT = "patchyard-plan"
VERSION = 1  # of the object's shape


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A plan as one JSON object, whose large values come piece by piece."""

    data: Mapping[str, Any]  # all but `patch` and `bodies`
    digests: Sequence[str]  # of the bodies
    text: AsyncIterator[str]  # the whole object as JSON


async def exported(
    equipment: Equipment, ledger: Ledger, *, coded: Callable[[Mapping[str, Any]], Iterator[str]]
) -> Exported:
    """Return the plan. Raises JournalBroken when a body is lost, `text` too for a body or a patch.

    Everything stands as it lies in the journal, so that the hashes still fit; what is a secret
    was never written there. `coded` writes an object as JSON.
    """
    journal = equipment.store.journal
    checked = await verify(journal, ledger.plan_id)
    entries = await journal.entries(ledger.plan_id)
    stored = await journal.read(ledger.plan_id)
    digests = sorted({digest for each in stored for digest in await _named(journal, each)})
    data = {
        "format": FORMAT,
        "version": VERSION,
        "plan_id": ledger.plan_id,
        "head": checked.head,
        "is_hashed": checked.is_hashed,
        "problems": list(checked.problems),
        "plan": await plan_data(ledger),
        "receipt": await _receipt(ledger),
        "events": [_event(entry) for entry in entries],
    }
    patch = await _patch(equipment, ledger)
    text = _text(coded(data), patch, digests, journal)
    return Exported(data=data, digests=digests, text=text)


async def _text(
    head: Iterator[str],
    patch: AsyncIterator[bytes] | None,
    digests: Sequence[str],
    journal: Journal,
) -> AsyncIterator[str]:
    last = ""
    for piece in head:
        yield last
        last = piece
    yield last[: last.rindex("}")].rstrip() + ',\n "patch": '
    if patch is None:
        yield "null"
    else:
        yield '"'
        async for piece in _coded(patch):
            yield piece
        yield '"'
    yield ',\n "bodies": {'
    for digest in digests:
        body = base64.b64encode(await journal.body(digest)).decode("ascii")
        yield f'{"" if digest == digests[0] else ","}\n  "{digest}": "{body}"'
    yield "\n }\n}"


async def _named(journal: Journal, stored: StoredEvent) -> set[str]:
    """Return the digests of all bodies that an event needs."""
    whole = {str(stored.body[WHOLE])} if WHOLE in stored.body else set()
    return whole | bodies_of(await from_row(stored, PLAN, journal))


async def _receipt(ledger: Ledger) -> Any:
    applied = ledger.state.applied
    return None if applied is None else await ledger.value(applied.record)


async def _patch(equipment: Equipment, ledger: Ledger) -> AsyncIterator[bytes] | None:
    if ledger.state.changeset is None or ledger.state.base is None:
        return None
    base, changeset = await Handing(equipment, ledger).changeset()
    return equipment.trees.diff(base, changeset)


async def _coded(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield bytes in base64: a patch may hold any."""
    rest = b""
    async for piece in pieces:
        data = rest + piece
        end = len(data) - len(data) % 3
        yield base64.b64encode(data[:end]).decode("ascii")
        rest = data[end:]
    yield base64.b64encode(rest).decode("ascii")


def _event(entry: Entry) -> Mapping[str, Any]:
    return {
        "version": entry.version,
        "type": entry.type,
        "schema": entry.schema,
        "at": entry.at,
        "text": entry.text,
        "hash": entry.hash,
    }


__all__ = ["FORMAT", "VERSION", "Exported", "exported"]
