"""Takes a secret out of what a host sends back: hygiene for answers that echo a request."""

import os
from collections.abc import Sequence

from patchyard.domain.secret_forms import secret_forms


class Masking:
    """Replaces secrets in a stream of pieces by as many asterisks."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._forms = secret_forms(tuple(map(os.fsencode, secrets)))
        self._held = b""

    def masked(self, data: bytes) -> bytes:
        """Return data that is there as a whole without the secrets."""
        return _starred(data, self._forms.found(data)[0])

    def feed(self, piece: bytes) -> bytes:
        """Return what can be passed on; the rest could be the beginning of a secret."""
        data = self._held + piece if self._held else piece
        spans, cut = self._forms.found(data)
        data = _starred(data, spans)
        self._held = data[cut:]
        return data[:cut]

    def rest(self) -> bytes:
        """Return what was held back, at the end."""
        held, self._held = self._held, b""
        return held


def _starred(data: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    if not spans:
        return data
    starred = bytearray(data)
    for start, end in spans:
        starred[start:end] = b"*" * (end - start)
    return bytes(starred)


__all__ = ["Masking"]
