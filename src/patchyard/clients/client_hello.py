"""Which name a TLS client asks for, read from its first message; nothing is decrypted."""

import asyncio

HANDSHAKE = 22  # type of the record, RFC 8446, 5.1
HELLO = 1  # type of the message
SERVER_NAME = 0  # extension, RFC 6066, 3
HOST_NAME = 0
RECORD_BYTES = 16 * 1024 + 256
HELLO_BYTES = 64 * 1024
RECORDS = 64  # that it may come in; clients take one, or a few


class NoHello(Exception):
    """What came is no ClientHello; the text says what is wrong with it."""


class _Bytes:
    """Reads numbers and vectors, never beyond their end."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def take(self, count: int) -> bytes:
        if count > len(self._data):
            raise NoHello("it is cut short")
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> "_Bytes":
        return _Bytes(self.take(self.number(size)))

    def rest(self) -> bytes:
        return self.take(len(self._data))

    def __bool__(self) -> bool:
        return bool(self._data)


async def read_hello(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return all bytes read, and the ClientHello in them. Raises NoHello, IncompleteReadError."""
    raw, message = b"", b""
    count = 0
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
        head = await reader.readexactly(5)
        length = int.from_bytes(head[3:], "big")
        if head[0] != HANDSHAKE or head[1] != 3 or not 0 < length <= RECORD_BYTES:
            raise NoHello("it does not speak TLS")
        body = await reader.readexactly(length)
        raw, message, count = raw + head + body, message + body, count + 1
        if message[0] != HELLO or len(message) > HELLO_BYTES or count > RECORDS:
            raise NoHello("it does not begin with a ClientHello")
    return raw, message


def server_name(message: bytes) -> str | None:
    """Return the name that a ClientHello asks for, None when it asks for none. Raises NoHello."""
    whole = _Bytes(message[1:]).vector(3)
    whole.take(2 + 32)  # version and random
    whole.vector(1)  # session
    whole.vector(2)  # ciphers
    whole.vector(1)  # compression
    found: list[str] = []
    extensions = whole.vector(2) if whole else _Bytes(b"")
    while extensions:
        kind, body = extensions.number(2), extensions.vector(2)
        if kind == SERVER_NAME:
            names = body.vector(2)
            while names:
                if names.number(1) != HOST_NAME:
                    raise NoHello("it asks for a name of another kind")
                found.append(names.vector(2).rest().decode("latin-1"))
    if len(found) > 1:
        raise NoHello("it asks for two names")
    return found[0] if found else None


__all__ = [
    "HANDSHAKE",
    "HELLO",
    "HELLO_BYTES",
    "HOST_NAME",
    "RECORDS",
    "RECORD_BYTES",
    "SERVER_NAME",
    "NoHello",
    "read_hello",
    "server_name",
]
