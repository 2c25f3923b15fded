"""How a command ends: one object for programs, some lines for people, one exit code."""

import asyncio
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any, NoReturn, TypeVar

import click

from patchyard.cli.encoding import encoded
from patchyard.cli.interrupts import EarlyInterrupt
from patchyard.cli.lacking import placed, refused
from patchyard.clients.waited import INTERRUPTS
from patchyard.domain.errors import PatchyardError, Unavailable
from patchyard.domain.machine import refused_by_machine

INTERRUPTED = 130
KILLED = b"\nkilled; `agents plan resume` carries a plan on\n"
SHOW_CURSOR = b"\x1b[?25h"  # the moving line hides it
BEGINNING = frozenset({"demo", "plan fork", "plan replay", "plan retry", "plan use", "run"})
BEGUN = "`agents plan list --all` shows whether a plan was begun; `agents plan resume ID` goes on"
JSON = "json"
RICH = "rich"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a command came to.

    Its size is not shown: asyncio describes the result of its task twice at its end.
    """

    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    text: str = field(default="", repr=False)  # for people, on standard output
    raw: bytes | None = None  # exact bytes for a pipe, instead of `text`
    error: PatchyardError | None = None  # the work failed, and data says how far it came
    exit_code: int = 0


def format_option(command: F) -> F:
    """Add `--format rich|json`."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice([RICH, JSON]),
        default=RICH,
        help="Lines for people, or one JSON object.",
    )(command)


def carry_out(
    command: str,
    output_format: str,
    work: Callable[[], Coroutine[Any, Any, Outcome]],
    *,
    stream: bool = False,
) -> None:
    """Run `work`, print what it came to and leave with its exit code."""
    is_json = output_format == JSON
    started = time.time()
    try:
        outcome = asyncio.run(_stoppable(work))
    except PatchyardError as error:
        outcome = Outcome(error=error, exit_code=error.exit_code)
    except OSError as error:
        outcome = Outcome(error=refused(error))
    except (KeyboardInterrupt, asyncio.CancelledError):
        outcome = Outcome(error=Interrupted(hint=BEGUN if command in BEGINNING else ""))
    if outcome.error is not None:
        if is_json and isinstance(outcome.error, Interrupted):  # its reader may have gone
            say_error(outcome.error)
        placed(outcome.error, os.environ)
    code = outcome.exit_code or (outcome.error.exit_code if outcome.error else 0)
    try:
        if is_json:
            body = {"command": command, **_envelope(outcome, code, started)}
            for piece in encoded(body, indent=None if stream else 2):
                click.echo(piece, nl=False)
            click.echo()
        else:
            _print_text(outcome)
        _flush()
    except BrokenPipeError:  # who read has gone: what was done counts
        send_nowhere(sys.stdout)
        send_nowhere(sys.stderr)
    except OSError as error:
        send_nowhere(sys.stdout)
        error.filename = error.filename or "standard output"
        say_error(refused_by_machine(error))
        code = code or Unavailable.exit_code
    raise click.exceptions.Exit(code)


async def _stoppable(work: Callable[[], Coroutine[Any, Any, Outcome]]) -> Outcome:
    """Let SIGTERM and SIGHUP stop `work` as cleanly as the first Ctrl-C does; a second kills.

    Threads may be at work then that nothing can stop, at the files of a plan: who lets go of
    the plan must not live on.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    if task is None or threading.current_thread() is not threading.main_thread():
        return await work()

    def stop() -> None:
        INTERRUPTS.come()
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop)

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGINT, _die)
        INTERRUPTS.come()
        loop.call_soon_threadsafe(task.cancel)

    before = signal.signal(signal.SIGINT, interrupt)
    if isinstance(before, EarlyInterrupt) and before.has_come:
        task.cancel()
    try:
        return await work()
    finally:
        INTERRUPTS.come()  # so that no thread waits for a program any more
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, before)


def _die(*_: object) -> NoReturn:
    """End as by a kill: what a plan needs is on disk, and no thread goes on."""
    INTERRUPTS.kill()
    with suppress(OSError):
        os.write(2, SHOW_CURSOR * os.isatty(2) + KILLED)
    os._exit(INTERRUPTED)


@contextmanager
def heard(stream: IO[str]) -> Iterator[None]:
    """Let a `stream` that takes no more stop the command as the first Ctrl-C does."""
    try:
        yield
    except OSError as error:
        send_nowhere(stream)
        if not isinstance(error, BrokenPipeError):
            say_error(refused_by_machine(error))
        signal.raise_signal(signal.SIGTERM)


def send_nowhere(stream: IO[str]) -> None:
    """Let what could not be written go, or Python tries once more at its end."""
    if is_open(stream):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _flush() -> None:
    """Bring it out; a closed standard output (`>&-`) has nothing to bring."""
    if is_open(sys.stdout):
        sys.stdout.flush()


class Interrupted(PatchyardError):
    """Interrupted before its end: the same command can be called again."""

    code = "interrupted"
    exit_code = INTERRUPTED


def _envelope(outcome: Outcome, code: int, started: float) -> dict[str, Any]:
    error = outcome.error
    return {
        "status": "error" if error or code else "ok",
        "exit_code": code,
        "data": outcome.data,
        "error": error_data(error),
        "timing": {
            "started": datetime.fromtimestamp(started, UTC).isoformat(),
            "elapsed_s": round(time.time() - started, 3),
        },
    }


def error_data(error: PatchyardError | None) -> dict[str, Any] | None:
    """Return the `error` object of interface.md."""
    if error is None:
        return None
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "details": {key: _plain(value) for key, value in error.details.items()},
    }


def _plain(value: Any) -> Any:
    """Return what JSON can hold as it is, all else as text."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return str(value)


def _print_text(outcome: Outcome) -> None:
    if outcome.raw is not None:
        if is_open(sys.stdout):
            sys.stdout.buffer.write(outcome.raw)
    elif outcome.text:
        click.echo(outcome.text.rstrip("\n"))
    if outcome.error is not None:
        _flush()
        say_error(outcome.error)


def say_error(error: PatchyardError) -> None:
    """Print an error and its cure on standard error."""
    click.echo(f"{paint('error:', 'red', to_stderr=True)} {visible(error.message)}", err=True)
    if error.hint:
        click.echo(f"{paint('hint:', 'cyan', to_stderr=True)} {visible(error.hint)}", err=True)


def say_warnings(texts: Iterable[str]) -> None:
    """Print on standard error what was passed over."""
    for text in texts:
        click.echo(f"{paint('warning:', 'yellow', to_stderr=True)} {visible(text)}", err=True)


def show_usage_error(error: click.ClickException, arguments: Sequence[str]) -> int:
    """Print what click found wrong with the call; as JSON when that was asked for. Exit code 2."""
    pairs = {*arguments, *map("=".join, itertools.pairwise(arguments))}
    if "--format=json" in pairs:
        context = error.ctx if isinstance(error, click.UsageError) else None
        body = {"code": "usage", "message": error.format_message(), "hint": "", "details": {}}
        envelope = {
            "command": context.command_path.partition(" ")[2] if context else "",
            "status": "error",
            "exit_code": 2,
            "data": {},
            "error": body,
            "timing": {"started": datetime.now(UTC).isoformat(), "elapsed_s": 0.0},
        }
        click.echo(json.dumps(envelope, indent=2))
    else:
        error.show()
    return 2


def counted(number: int, noun: str) -> str:
    """Return "1 file" or "2 files"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def one_line(text: str) -> str:
    """Return `text` such that it begins no line of its own: what others named stands in lists."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def visible(text: str) -> str:
    """Return `text` with control characters escaped, but for line breaks and tabs."""
    if text.isprintable():
        return text
    return "".join(
        char if char in "\n\t" or (char.isprintable() and not 0xDC80 <= ord(char) <= 0xDCFF)
        else f"\\x{ord(char) & 0xFF:02x}" if ord(char) < 0x100 or 0xDC80 <= ord(char) <= 0xDCFF
        else f"\\u{ord(char):04x}"
        for char in text
    )  # fmt: skip


def is_coloured(*, to_stderr: bool = False) -> bool:
    """Whether colours are wanted: a terminal that knows them, and NO_COLOR not set."""
    stream = sys.stderr if to_stderr else sys.stdout
    is_wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return is_wanted and is_open(stream) and stream.isatty()


def is_open(stream: IO[str] | None) -> bool:
    """Whether the program was started with it; Python leaves None in place of a closed one."""
    return stream is not None


def paint(text: str, colour: str, *, bold: bool = False, to_stderr: bool = False) -> str:
    """Return `text` in `colour` where colours are wanted."""
    if not is_coloured(to_stderr=to_stderr):
        return text
    return click.style(text, fg=colour, bold=bold)


__all__ = [
    "INTERRUPTED",
    "JSON",
    "RICH",
    "Interrupted",
    "Outcome",
    "carry_out",
    "counted",
    "error_data",
    "format_option",
    "heard",
    "is_coloured",
    "is_open",
    "one_line",
    "paint",
    "say_error",
    "say_warnings",
    "send_nowhere",
    "show_usage_error",
    "visible",
]
