"""The purse in the journal's own file, so that both are written in one step."""

from collections.abc import Mapping, Sequence

from patchyard.domain.booking import Account, Booking
from patchyard.domain.budget import Amount, Tally
from patchyard.stores.books import book, holders, lose, tally
from patchyard.stores.sqlite import SQLiteJournal


class SQLitePurse:
    """contracts.purse.Purse in the file of a journal."""

    def __init__(self, journal: SQLiteJournal) -> None:
        self._journal = journal

    async def tallies(self, accounts: Sequence[Account]) -> Mapping[Account, Tally]:
        """See contracts.purse.Purse."""
        return await self._journal.view(
            lambda connection: {account: tally(connection, account) for account in accounts}
        )

    async def book(self, stream: str, booking: Booking) -> None:
        """See contracts.purse.Purse."""
        await self._journal.within(lambda connection: book(connection, stream, booking))

    async def holders(self) -> Mapping[str, Amount]:
        """See contracts.purse.Purse."""
        return await self._journal.look(holders)

    async def lose(self, stream: str) -> None:
        """See contracts.purse.Purse."""
        await self._journal.within(lambda connection: lose(connection, stream))


__all__ = ["SQLitePurse"]
