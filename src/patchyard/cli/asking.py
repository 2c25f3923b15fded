"""Asking whoever sits at the terminal whether a plan may go on."""

import asyncio
import sys

import click

from patchyard.cli.outcome import is_open, paint, visible
from patchyard.cli.progress import SpokenLines
from patchyard.contracts.approver import Verdict
from patchyard.domain.steering import ApprovalAsked, Subject

YES = frozenset({"y", "yes"})
NO = frozenset({"", "n", "no"})
BY = "terminal"


class TerminalApprover:
    """contracts.approver.Approver at the terminal of a command."""

    def __init__(self, spoken: SpokenLines, *, is_json: bool) -> None:
        self._spoken = spoken
        self._is_json = is_json

    async def ask(self, asked: ApprovalAsked) -> Verdict | None:
        """See contracts.approver.Approver. Whatever is no yes is a no; other words tell why."""
        if self._is_json or not _is_someone_there():
            return None
        with self._spoken.hush():
            click.echo(
                f"{paint('approve?', 'yellow', to_stderr=True)} {_question(asked)}", err=True
            )
            click.echo("  y, n, or why not: ", err=True, nl=False)
            line = await _line()
        if line is None:
            return None
        word = line.strip()
        if word.lower() in YES:
            return Verdict(is_approved=True, by=BY)
        return Verdict(is_approved=False, by=BY, reason="" if word.lower() in NO else word)


def _is_someone_there() -> bool:
    return all(is_open(each) and each.isatty() for each in (sys.stdin, sys.stderr))


def _question(asked: ApprovalAsked) -> str:
    phase = f"{asked.name}: " if asked.subject == Subject.PHASE else ""
    return f"{phase}{visible(asked.shown)} ({visible(asked.why)})"


async def _line() -> str | None:
    """Read one line without holding the loop up; None at the end of the input."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline() or None


__all__ = ["BY", "NO", "YES", "TerminalApprover"]
