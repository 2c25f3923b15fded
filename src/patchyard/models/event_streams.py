"""Server-sent events, as several wire formats stream their answers."""

from collections.abc import AsyncGenerator, AsyncIterator

from patchyard.clients.http import LINE_BYTES, TOO_MUCH, HttpTrouble, Trouble


async def events_of(lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the data of each event; comments and other fields are passed over.

    Raises HttpTrouble for an event whose lines together are longer than one line may be.
    """
    data: list[bytes] = []
    held = 0
    async for raw in lines:
        line = raw.rstrip(b"\r")
        if not line and data:
            yield b"\n".join(data)
            data, held = [], 0
        elif line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
            held += len(line)
            if held > LINE_BYTES:
                raise HttpTrouble(Trouble.GARBLED, TOO_MUCH)
    if data:
        yield b"\n".join(data)


__all__ = ["events_of"]
