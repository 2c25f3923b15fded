"""Manifests of checkpoints in the journal: written and read by pieces, as they may be long."""

from collections.abc import Sequence

from patchyard.domain.body import Body
from patchyard.domain.manifest import Entry, Manifest, from_rows
from patchyard.engine.ledger import Ledger
from patchyard.engine.packing import packed_body


def manifest_body(put: Manifest, gone: Sequence[str]) -> Body:
    """Return what one look put in and found gone, as an event holds it."""
    return packed_body({"put": put, "gone": gone})


async def read_manifest(ledger: Ledger, body: Body) -> tuple[dict[str, Entry], list[str]]:
    """Return what `manifest_body` took. Raises JournalBroken for anything else."""
    put, gone = dict[str, Entry](), list[str]()
    for name, piece in await ledger.parts(body):
        more, left = from_rows({"put": {}, "gone": [], name: piece} if name else piece)
        put.update(more)
        gone += left
    return put, gone


__all__ = ["manifest_body", "read_manifest"]
