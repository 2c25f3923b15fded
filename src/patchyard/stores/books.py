"""The books of the purse: its two tables, changed within a transaction that somebody else began."""

import sqlite3
from collections.abc import Sequence

from patchyard.domain.booking import (
    Account,
    Booking,
    SetAside,
    Settled,
    accounts,
    is_refusable,
    require_room,
)
from patchyard.domain.budget import MEASURES, Amount, Tally

NONE = Amount()
EMPTY = Tally()
_SPENT = ", ".join(MEASURES)
_HELD = ", ".join(f"held_{name}" for name in MEASURES)
_PLACES = ", ".join("?" for _ in range(2 + 2 * len(MEASURES)))
TALLY = f"SELECT {_SPENT}, {_HELD} FROM purse WHERE project = ? AND day = ?"  # noqa: S608 - names of our own
ADD = (
    f"INSERT INTO purse (project, day, {_SPENT}, {_HELD}) VALUES ({_PLACES})"  # noqa: S608 - names of our own
    " ON CONFLICT (project, day) DO UPDATE SET "
    + ", ".join(
        f"{name} = {name} + excluded.{name}"
        for name in (*MEASURES, *(f"held_{measure}" for measure in MEASURES))
    )
)
KEEP = "INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
KEPT = f"SELECT project, day, {_SPENT} FROM reservations WHERE stream = ? AND number = ?"  # noqa: S608 - names of our own
DROP = "DELETE FROM reservations WHERE stream = ? AND number = ?"
_TOTALS = ", ".join(f"sum({name})" for name in MEASURES)
HOLDERS = f"SELECT stream, {_TOTALS} FROM reservations GROUP BY stream ORDER BY stream"  # noqa: S608 - names of our own


class _Sums:
    """What a transaction adds to the accounts, summed up so that each is written once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._added: dict[Account, Tally] = {}

    def add(self, places: Sequence[Account], *, spent: Amount = NONE, held: Amount = NONE) -> None:
        for account in places:
            before = self._added.get(account, EMPTY)
            self._added[account] = Tally(
                spent=before.spent + spent, reserved=before.reserved + held
            )

    def now(self, account: Account) -> Tally:
        """Return what stands in an account, with what is added."""
        stored, added = tally(self._connection, account), self._added.get(account, EMPTY)
        return Tally(spent=stored.spent + added.spent, reserved=stored.reserved + added.reserved)

    def write(self) -> None:
        rows = [
            (account.project, account.day, *_row(sums.spent), *_row(sums.reserved))
            for account, sums in self._added.items()
        ]
        self._connection.executemany(ADD, rows)


def book(connection: sqlite3.Connection, stream: str, booking: Booking) -> None:
    """Make the moves of `booking` within a transaction that writes.

    Raises LimitReached for one that a limit refuses; the caller rolls back.
    """
    sums = _Sums(connection)
    for move in booking.moves:
        if isinstance(move, Settled):
            _settle(connection, sums, stream, move.number, move.amount)
            continue
        if is_refusable(move) and booking.bounds:
            tallies = {bound.account: sums.now(bound.account) for bound in booking.bounds}
            require_room(booking.bounds, tallies, move.amount)
        if isinstance(move, SetAside):
            kept = (stream, move.number, booking.project, booking.day, *_row(move.amount))
            connection.execute(KEEP, kept)
            sums.add(booking.accounts, held=move.amount)
        else:
            sums.add(booking.accounts, spent=move.amount)
    sums.write()


def _settle(
    connection: sqlite3.Connection, sums: _Sums, stream: str, number: int, amount: Amount | None
) -> None:
    """Book what a reservation came to; None: all of it."""
    found = connection.execute(KEPT, (stream, number)).fetchone()
    if found is None:
        return
    project, day, *row = found
    kept = _amount(row)
    spent = kept if amount is None else amount
    sums.add(accounts(project, day), spent=spent, held=Amount() - kept)
    connection.execute(DROP, (stream, number))


def lose(connection: sqlite3.Connection, stream: str) -> None:
    """Settle all that a stream has set aside at its most."""
    sums = _Sums(connection)
    query = "SELECT number FROM reservations WHERE stream = ?"
    for (number,) in connection.execute(query, (stream,)).fetchall():
        _settle(connection, sums, stream, number, None)
    sums.write()


def holders(connection: sqlite3.Connection) -> dict[str, Amount]:
    """Return what each stream has set aside, where it has."""
    return {stream: _amount(row) for stream, *row in connection.execute(HOLDERS)}


def tally(connection: sqlite3.Connection, account: Account) -> Tally:
    """Return what stands in an account."""
    found = connection.execute(TALLY, (account.project, account.day)).fetchone()
    if found is None:
        return Tally()
    count = len(MEASURES)
    return Tally(spent=_amount(found[:count]), reserved=_amount(found[count:]))


def _amount(row: Sequence[int]) -> Amount:
    return Amount(**dict(zip(MEASURES, row, strict=True)))


def _row(amount: Amount) -> tuple[int, ...]:
    return tuple(getattr(amount, name) for name in MEASURES)


__all__ = ["book", "holders", "lose", "tally"]
