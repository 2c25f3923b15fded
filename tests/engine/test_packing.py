"""Long values of the journal: packed by pieces, read back whole or as records."""

import dataclasses
import json
import zlib
from pathlib import Path

import pytest

from patchyard.clients.clock import SystemClock
from patchyard.contracts.handover import Receipt
from patchyard.contracts.journal import StoredEvent
from patchyard.domain.body import Body
from patchyard.domain.changeset import Change, ChangeSet, ChangeStatus, Finding, FindingKind
from patchyard.domain.codec import in_full
from patchyard.domain.errors import JournalBroken
from patchyard.domain.events import ChangeSetCaptured, Noted
from patchyard.domain.manifest import Entry
from patchyard.domain.meanings import FORMAT, PACKED
from patchyard.domain.state import PlanState
from patchyard.engine.ledger import PLAN, Ledger, Store
from patchyard.engine.manifests import manifest_body, read_manifest
from patchyard.engine.packing import (
    FEW,
    MARK,
    PIECE,
    PackedBody,
    packed_body,
    parts_of,
    record_of,
    value_of,
)
from patchyard.engine.rows import from_row, read_body, read_record, to_row
from patchyard.stores.purse import SQLitePurse
from patchyard.stores.sqlite import SQLiteJournal
from patchyard.workspaces.edits import Edit

CLOCK = SystemClock()
MANY = 2 * PIECE + 7


def change(number: int) -> Change:
    return Change(
        path=f"d/{number}\udcff",
        status=ChangeStatus.ADDED,
        mode="100644",
        blob=f"{number:040x}" if number % 3 else "0" * 40,
        added=number,
        call_id="01" * 13 if number % 2 else None,
    )


def changeset(files: int, findings: int = 1) -> ChangeSet:
    return ChangeSet(
        id="cs-1",
        base_tree="b" * 40,
        tree="t" * 40,
        changes=tuple(map(change, range(files))),
        findings=tuple(
            Finding(kind=FindingKind.SETUID, path=f"{n}", message="odd") for n in range(findings)
        ),
    )


def captured(body: Body) -> ChangeSetCaptured:
    return ChangeSetCaptured(
        changeset_id="cs-1", base_tree="b", tree="t", files=1, added=0, removed=0, findings=0,
        body=body,
    )  # fmt: skip


def packed(value: object) -> bytes:
    body = packed_body(value)
    assert isinstance(body, PackedBody)
    return body.data


@pytest.mark.parametrize("files", [FEW + 1, PIECE, PIECE + 1, MANY])
@pytest.mark.parametrize("findings", [0, FEW + 1])
def test_a_long_change_set_is_read_back_as_it_was(files: int, findings: int) -> None:
    whole = changeset(files, findings)
    data = packed(whole)
    assert data.startswith(MARK)
    assert record_of(ChangeSet, data) == whole
    assert value_of(data) == in_full(whole)


def receipt(files: int) -> Receipt:
    edits = [
        Edit(path=f"d/{n}\udcff", before=None, after=("100644", "e" * 40)) for n in range(files)
    ]
    return Receipt(
        to="worktree",
        is_done=True,
        touched=tuple(edit.path for edit in edits),
        undo={"edits": [edit.as_list() for edit in edits], "token": "t", "index": []},
    )


@pytest.mark.parametrize("files", [FEW + 1, PIECE, MANY])
def test_a_long_part_in_an_object_of_the_value_is_packed_too(files: int) -> None:
    whole = receipt(files)
    data = packed(whole)
    pieces = [(name, len(piece)) for name, piece in parts_of(data) if name]
    assert {name for name, _ in pieces} == {"touched", "undo/edits"}
    assert max(length for _, length in pieces) <= PIECE
    assert record_of(Receipt, data) == whole
    assert value_of(data) == in_full(whole)
    assert len({id(row[4]) for row in record_of(Receipt, data).undo["edits"]}) == 1


def test_a_name_with_the_sign_between_object_and_part_is_no_part_of_another() -> None:
    whole = {"a": {"b": list(range(FEW + 1))}, "a/b": list(range(FEW + 2)), "c/d": [0] * (FEW + 1)}
    assert value_of(packed(whole)) == whole


def test_a_short_change_set_stays_plain_json() -> None:
    body = packed_body(changeset(FEW))
    assert type(body) is Body
    assert body.value == in_full(changeset(FEW))


def test_no_piece_holds_more_than_its_entries() -> None:
    pieces = [(name, len(piece)) for name, piece in parts_of(packed(changeset(MANY)))]
    assert pieces[1:] == [("changes", PIECE), ("changes", PIECE), ("changes", 7)]


def test_entries_share_the_words_that_they_have_in_common() -> None:
    changes = record_of(ChangeSet, packed(changeset(MANY))).changes
    assert len({id(each.mode) for each in changes}) == 1


def test_a_change_has_no_dictionary_of_its_own() -> None:
    assert not hasattr(change(1), "__dict__")
    assert dataclasses.replace(change(1), added=5).added == 5


@pytest.mark.parametrize(
    "data",
    [
        packed(changeset(MANY))[:-9],
        packed(changeset(MANY)) + b"x",
        MARK,
        MARK + b"no zlib",
        MARK + zlib.compress(b""),
        MARK + zlib.compress(b'{"id": "cs"'),
        MARK + zlib.compress(b'{"id": "cs"}\n'),
        MARK + zlib.compress(b"[1]\n"),
        MARK + zlib.compress(b'"changes"\n[{}]\n'),
        MARK + zlib.compress(json.dumps(in_full(changeset(0))).encode() + b'\n"tree"\n["x"]\n'),
        MARK + zlib.compress(json.dumps(in_full(changeset(0))).encode() + b'\n"changes"\n[7]\n'),
        MARK + zlib.compress(b"[" * 100_000 + b"\n"),
    ],
)
def test_what_does_not_fit_is_named(data: bytes) -> None:
    with pytest.raises(JournalBroken):
        record_of(ChangeSet, data)


@pytest.mark.parametrize(
    "lines", [b'"touched"\n[7]\n', b'"undo/none"\n[7]\n', b'"usage/x"\n[7]\n', b'"undo"\n[7]\n']
)
def test_a_long_part_that_has_no_place_in_a_receipt_is_named(lines: bytes) -> None:
    first = json.dumps(in_full(receipt(0))).encode() + b"\n"
    with pytest.raises(JournalBroken):
        record_of(Receipt, MARK + zlib.compress(first + lines))


async def test_a_journal_gives_back_what_is_packed(tmp_path: Path) -> None:
    journal = SQLiteJournal.open(tmp_path / "journal.db")
    whole, bodies = changeset(MANY), dict[str, bytes]()
    row = to_row(captured(packed_body(whole)), PLAN, 1.0, bodies)
    await journal.append("01" * 13, 0, [row], bodies=bodies)
    (stored,) = await journal.read("01" * 13)
    event = await from_row(stored, PLAN, journal)
    assert type(event.body) is Body
    assert await read_record(journal, event.body, ChangeSet) == whole
    assert await read_body(journal, event.body) == in_full(whole)
    await journal.close()


def test_only_an_event_with_a_packed_body_asks_for_a_newer_reader() -> None:
    rows = [
        to_row(event, PLAN, 1.0, {})
        for event in (
            Noted(text="x"),
            captured(packed_body(changeset(3))),
            captured(packed_body(changeset(MANY))),
        )
    ]
    assert [row.schema for row in rows] == [FORMAT, FORMAT, PACKED]


async def test_an_event_of_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    journal = SQLiteJournal.open(tmp_path / "journal.db")
    row = to_row(Noted(text="x"), PLAN, 1.0, {})
    stored = StoredEvent(
        stream="01" * 13, version=1, type=row.type, schema=PACKED + 1, at=1.0, body=row.body
    )
    with pytest.raises(JournalBroken, match="schema 3") as refused:
        await from_row(stored, PLAN, journal)
    assert "upgrade" in refused.value.hint
    await journal.close()


@pytest.mark.parametrize("files", [3, MANY])
async def test_a_manifest_is_read_back_as_it_was(tmp_path: Path, files: int) -> None:
    journal = SQLiteJournal.open(tmp_path / "journal.db")
    put = {
        f"a/{n}\udcff": Entry(0o100644, n, 4, 5, 6, "ab" * 32, "", (("user.x", "\xff"),))
        for n in range(files)
    }
    body = manifest_body(put, ["gone", "all/"])
    assert isinstance(body, PackedBody) == (files == MANY)
    store = Store(journal=journal, summaries=journal, purse=SQLitePurse(journal))
    ledger = Ledger(store, CLOCK, PlanState(plan_id=CLOCK.new_id()))
    assert await read_manifest(ledger, body) == (put, ["gone", "all/"])
    await journal.close()
