"""The calls that bring a colleague's files into a plan's work, as an actor makes them. Pure."""

import base64
import shlex
from collections.abc import Iterator, Sequence

from patchyard.contracts.actor import Wanted
from patchyard.domain.changeset import Change

LINK = "120000"
PROGRAM = "100755"
PIECE_BYTES = 60_000  # in base 64 below what one argument of a command may hold
LARGEST = 8 * 1024 * 1024  # of a file that no text tool can write


def calls_for(change: Change, content: bytes | None, *, ref: str) -> Sequence[Wanted]:
    """Return the calls that make one change; `content` is its blob, None where it has none.

    Text is written by the tool for it; bytes, links and modes by commands.
    """
    calls = list(_calls(change, content))
    return [
        Wanted(ref=ref if n == 0 else f"{ref}.{n}", name=name, arguments=arguments, problem=problem)
        for n, (name, arguments, problem) in enumerate(calls)
    ]


_Call = tuple[str, dict[str, str] | None, str]  # tool, arguments, what is wrong


def _calls(change: Change, content: bytes | None) -> Iterator[_Call]:
    if change.old_path is not None:
        yield "delete_file", {"path": change.old_path}, ""
    elif change.old_mode == LINK:  # else what it leads to is written
        yield "delete_file", {"path": change.path}, ""
    if content is None:
        yield "delete_file", {"path": change.path}, ""
        return
    place = shlex.quote(f"./{change.path}")
    if change.mode == LINK:
        target = shlex.quote(content.decode("utf-8", "surrogateescape"))
        yield _command(f"{_folder(place)} && ln -sfn -- {target} {place}")
        return
    text = _text(content)
    if text is not None:
        yield "write_file", {"path": change.path, "content": text}, ""
    elif len(content) > LARGEST:
        yield "write_file", None, f"it is no text, and larger than {LARGEST:,} bytes"
        return
    else:
        yield _command(f"{_folder(place)} && : >{place}")
        for start in range(0, len(content), PIECE_BYTES):
            piece = base64.b64encode(content[start : start + PIECE_BYTES]).decode("ascii")
            yield _command(f"printf %s {piece} | base64 -d >>{place}")
    if (change.mode == PROGRAM) != (change.old_mode == PROGRAM):
        yield _command(f"chmod {'+x' if change.mode == PROGRAM else '-x'} {place}")


def _command(command: str) -> _Call:
    return "execute_command", {"command": command}, ""


def _folder(place: str) -> str:
    return f'mkdir -p -- "$(dirname -- {place})"'


def _text(content: bytes) -> str | None:
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


__all__ = ["LARGEST", "LINK", "PIECE_BYTES", "PROGRAM", "calls_for"]
