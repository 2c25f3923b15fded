"""Text that is UTF-8 once it is written: paths of Linux need not be, and not all can take that."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from patchyard.domain.errors import UsageError


def is_plain(text: str) -> bool:
    """Whether text has no lone surrogates, as Python keeps bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def require_plain(body: Any, *, taker: str) -> None:
    """Raise UsageError where some text in plain data is not UTF-8, which `taker` cannot take."""
    for text in _texts(body):
        if not is_plain(text):
            raise UsageError(
                f"{taker} takes no text that is not UTF-8: {text}",
                hint="rename the folder, or name it by a path of another name (`mount --bind`);"
                " `process` takes any path",
                details={"text": text},
            )


def _texts(body: Any) -> Iterator[str]:
    if isinstance(body, str):
        yield body
    elif isinstance(body, Mapping):
        for key, value in body.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(body, Sequence) and not isinstance(body, bytes):
        for value in body:
            yield from _texts(value)


__all__ = ["is_plain", "require_plain"]
