"""A merge of many files: each row is looked up, not looked for; a receipt makes rows when asked."""

import json
import tracemalloc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.domain.codec import in_full
from patchyard.workspaces.edits import Edit, Rows, Wanted, decode
from patchyard.workspaces.landing import Site
from patchyard.workspaces.merging import _raw_rows


class Counted(tuple[Change, ...]):
    """Changes that know how often they were gone through."""

    __slots__ = ()
    rounds = 0

    def __iter__(self) -> Iterator[Change]:
        type(self).rounds += 1
        return super().__iter__()


def test_all_changes_are_gone_through_once_for_all_rows() -> None:
    changes = Counted(
        Change(path=f"{n}", status=ChangeStatus.ADDED, mode="100644", blob=f"{n:040x}")
        for n in range(50)
    )
    site: Any = SimpleNamespace(
        changeset=SimpleNamespace(changes=changes),
        base=SimpleNamespace(filtered={"3": SimpleNamespace(normalised="old", raw="raw")}),
        forms=SimpleNamespace(normalised=lambda path, _: ("100644", f"normal {path}")),
    )
    rows = [
        Wanted(path=f"{n}", old=("100644", "old"), new=("100644", f"normal {n}")) for n in range(60)
    ]
    found = _raw_rows(cast("Site", site), rows)
    assert Counted.rounds == 1
    assert found[3] == Wanted(path="3", old=("100644", "raw"), new=("100644", f"{3:040x}"))
    assert found[4] == Wanted(path="4", old=("100644", "old"), new=("100644", f"{4:040x}"))
    assert found[50:] == rows[50:]


EDITS = [Edit(path=f"d/{n}", before=None, after=("100644", f"{n:040x}")) for n in range(5000)]


def test_the_rows_of_a_receipt_take_no_memory_beside_its_edits() -> None:
    tracemalloc.start()
    try:
        rows = Rows(EDITS)
        back = decode(rows)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert back == EDITS
    assert held < 100_000  # a list for each row would be over 500,000


def test_the_rows_of_a_receipt_are_those_that_a_journal_returns() -> None:
    rows = Rows(EDITS)
    kept = json.loads(json.dumps(in_full(rows)))
    assert rows == kept
    assert kept == rows
    assert decode(kept) == EDITS
    assert rows[7] == ["d/7", "", "", "100644", f"{7:040x}"]
    assert rows[1:3] == kept[1:3]
    assert rows != Rows(EDITS[1:])
    assert repr(rows[:2]) == repr(kept[:2])
