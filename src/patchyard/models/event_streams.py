"""Server-sent events, as several wire formats stream their answers."""

from collections.abc import AsyncGenerator, AsyncIterator


async def events_of(lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Yield the data of each event; comments and other fields are passed over."""
    data: list[bytes] = []
    async for raw in lines:
        line = raw.rstrip(b"\r")
        if not line and data:
            yield b"\n".join(data)
            data = []
        elif line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
    if data:
        yield b"\n".join(data)


__all__ = ["events_of"]
