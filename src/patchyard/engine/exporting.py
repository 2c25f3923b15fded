"""One plan as one object: its events to the letter, what they name, and what came of it."""

import base64
from collections.abc import Mapping
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


async def exported(equipment: Equipment, ledger: Ledger) -> Mapping[str, Any]:
    """Return the plan as JSON. Raises JournalBroken when a body is lost.

    Everything stands as it lies in the journal, so that the hashes still fit; what is a secret
    was never written there.
    """
    journal = equipment.store.journal
    checked = await verify(journal, ledger.plan_id)
    entries = await journal.entries(ledger.plan_id)
    stored = await journal.read(ledger.plan_id)
    digests = {digest for each in stored for digest in await _named(journal, each)}
    bodies = {digest: await journal.body(digest) for digest in sorted(digests)}
    return {
        "format": FORMAT,
        "version": VERSION,
        "plan_id": ledger.plan_id,
        "head": checked.head,
        "is_hashed": checked.is_hashed,
        "problems": list(checked.problems),
        "plan": await plan_data(ledger),
        "receipt": await _receipt(ledger),
        "patch": await _patch(equipment, ledger),
        "events": [_event(entry) for entry in entries],
        "bodies": {digest: _coded(data) for digest, data in bodies.items()},
    }


async def _named(journal: Journal, stored: StoredEvent) -> set[str]:
    """Return the digests of all bodies that an event needs."""
    whole = {str(stored.body[WHOLE])} if WHOLE in stored.body else set()
    return whole | bodies_of(await from_row(stored, PLAN, journal))


async def _receipt(ledger: Ledger) -> Any:
    applied = ledger.state.applied
    return None if applied is None else await ledger.value(applied.record)


async def _patch(equipment: Equipment, ledger: Ledger) -> str | None:
    """Return the change as a patch, in base64: it may hold any bytes."""
    if ledger.state.changeset is None or ledger.state.base is None:
        return None
    base, changeset = await Handing(equipment, ledger).changeset()
    return _coded(await equipment.trees.diff(base, changeset))


def _event(entry: Entry) -> Mapping[str, Any]:
    return {
        "version": entry.version,
        "type": entry.type,
        "schema": entry.schema,
        "at": entry.at,
        "text": entry.text,
        "hash": entry.hash,
    }


def _coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


__all__ = ["FORMAT", "VERSION", "exported"]
