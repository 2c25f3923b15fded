"""What the system's keyring gives: asked in a thread of its own, and waited for within bounds.

A keyring may ask its user for a word and answer much later, or never.
"""

import asyncio
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field

from patchyard.domain.errors import ModelUnavailable

LONGEST_S = 20.0  # that an answer is waited for; who is asked for a word needs some time

Said = tuple[str, ModelUnavailable | None]  # the key, or why there is none


@dataclass(frozen=True)
class Keyring:
    """The keyring of this process: what was read last, by entry, and what is being read."""

    longest_s: float = LONGEST_S
    _last: dict[str, Said] = field(default_factory=dict, repr=False)
    _asked: "dict[str, Future[Said]]" = field(default_factory=dict, repr=False)

    async def read(self, entry: str) -> None:
        """Read an entry anew, beside all else; `value` gives what came of it."""
        asked = self._begin(entry)
        waiting = asyncio.wrap_future(asked)
        try:
            async with asyncio.timeout(self.longest_s):
                said = await asyncio.shield(waiting)
        except TimeoutError:
            said = ("", _silent(entry, self.longest_s))
        self._last[entry] = said

    def value(self, entry: str) -> str:
        """Return what was read last; who never read it waits for it here. Raises ModelUnavailable.

        Without an entry of that name it is empty.
        """
        if entry not in self._last:
            try:
                self._last[entry] = self._begin(entry).result(self.longest_s)
            except TimeoutError:
                self._last[entry] = ("", _silent(entry, self.longest_s))
        value, error = self._last[entry]
        if error is not None:
            raise error
        return value

    def _begin(self, entry: str) -> "Future[Said]":
        """Return the answer that is waited for: one question at a time for each entry."""
        known = self._asked.get(entry)
        if known is None or known.done():
            known = self._asked[entry] = Future()
            threading.Thread(target=_ask, args=(entry, known), daemon=True).start()
        return known


def _ask(entry: str, answer: "Future[Said]") -> None:
    said = _said(entry)
    with suppress(InvalidStateError):  # nobody waits for it any more
        answer.set_result(said)


def _said(entry: str) -> Said:
    try:
        import keyring  # noqa: PLC0415 - an extra, for those who use it
    except ImportError as error:
        cure = "`pip install '.[keyring]'` in Patchyard's clone"
        return "", _refused(f"{entry} lies in the keyring, which needs an extra", cure, error)
    service, _, user = entry.rpartition("/")
    try:
        return (keyring.get_password(service, user) or "").strip(), None
    except Exception as error:  # noqa: BLE001 - of whichever backend; it is told, as the cause
        message = f"the keyring does not give {entry}: {error}"
        return "", _refused(message, "unlock it, or name a variable", error)


def _silent(entry: str, seconds: float) -> ModelUnavailable:
    message = f"the keyring did not answer for {entry} within {seconds:g} s"
    return _refused(message, "unlock it, or name a variable or a file", None)


def _refused(message: str, hint: str, cause: BaseException | None) -> ModelUnavailable:
    error = ModelUnavailable(message, hint=hint, details={"kind": "bad_key"})
    error.__cause__ = cause
    return error


__all__ = ["LONGEST_S", "Keyring", "Said"]
