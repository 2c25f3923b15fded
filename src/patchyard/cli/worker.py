"""`agents worker`: takes plans from the queue and carries them out, until it is told to stop."""

import asyncio
import os
import platform
import signal
import sys
from typing import NoReturn

import click

from patchyard.cli.outcome import Outcome, carry_out, format_option, heard, visible
from patchyard.clients.waited import INTERRUPTS
from patchyard.domain.durations import parse_duration
from patchyard.domain.errors import UsageError

KILLED = 137  # as the shell says of a process that SIGKILL ended
DRAIN_S = 30.0


MOST = 1000  # plans at once


@click.command(epilog="Example: agents worker --concurrency 4")
@click.option("--concurrency", type=int, default=2, show_default=True, help="Plans at once.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="R",
    help="Take only plans of this role, may be repeated; all by default.",
)
@click.option("--name", default="", help="What others know it by; machine and process by default.")
@click.option(
    "--drain",
    default=f"{DRAIN_S:g}s",
    show_default=True,
    help="How long running plans may take to stop when it is told to end.",
)
@format_option
def worker(
    concurrency: int, roles: tuple[str, ...], name: str, drain: str, output_format: str
) -> None:
    """Take plans from the queue and carry them out, those of dead processes too.

    `agents role list --announced` shows, from any process, which workers there are.

    The first SIGTERM or Ctrl-C lets it take no new plan and brings the running ones to where
    another worker goes on; the second ends it at once.
    """

    async def work() -> Outcome:
        return await _work(concurrency, roles, name or _own_name(), drain)

    carry_out("worker", output_format, work)


async def _work(concurrency: int, roles: tuple[str, ...], name: str, drain: str) -> Outcome:
    from patchyard.assembly import open_worker  # noqa: PLC0415 - heavy, and only now needed
    from patchyard.engine.worker import Terms  # noqa: PLC0415 - likewise
    from patchyard.intake_skills import skills_of  # noqa: PLC0415 - likewise

    if not 1 <= concurrency <= MOST:
        raise UsageError(f"--concurrency must be 1 to {MOST}, not {concurrency}")
    terms = Terms(
        name=name,
        concurrency=concurrency,
        roles=roles,
        skills=skills_of(os.environ, roles),
        drain_s=parse_duration(drain),
    )
    async with open_worker(os.environ, terms, told=_say) as (one, chores):
        loop = asyncio.get_running_loop()

        def end() -> None:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.add_signal_handler(number, _die)
            one.drain()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, end)
        _say(f"worker {name}: up to {concurrency} at once")
        await one.run(chores)
    return Outcome(data={"worker": name}, text=f"worker {name}: ended")


def _die() -> NoReturn:
    """End as by a kill, with each git that is waited for."""
    INTERRUPTS.kill()
    os._exit(KILLED)


def _say(text: str) -> None:
    with heard(sys.stderr):
        click.echo(visible(text), err=True)


def _own_name() -> str:
    return f"{platform.node() or 'worker'}-{os.getpid()}"


__all__ = ["DRAIN_S", "KILLED", "worker"]
