"""Asking whoever sits at the terminal whether a plan may go on."""

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

import click

from patchyard.cli.outcome import is_open, paint, visible
from patchyard.cli.progress import SpokenLines
from patchyard.contracts.approver import Reply, Verdict
from patchyard.domain.elicitation import Field, Question, value_of
from patchyard.domain.steering import ApprovalAsked, Subject

YES = frozenset({"y", "yes"})
NO = frozenset({"", "n", "no"})
BY = "terminal"
CHOICES_CHARS = 500  # that are shown of them
TRIES = 3  # for one field


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
            line = await typed_line()
        if line is None:
            return None
        word = line.strip()
        if word.lower() in YES:
            return Verdict(is_approved=True, by=BY)
        return Verdict(is_approved=False, by=BY, reason="" if word.lower() in NO else word)

    async def answer(self, question: Question) -> Reply | None:
        """See contracts.approver.Answering. Whoever leaves out what is needed declines."""
        if self._is_json or not _is_someone_there():
            return None
        with self._spoken.hush():
            asks = paint(f"MCP server {question.server} asks:", "yellow", to_stderr=True)
            click.echo(f"{asks} {visible(question.text)}", err=True)
            content = await _filled(question)
        return Reply(content=content, by=BY)


async def _filled(question: Question) -> Mapping[str, Any] | None:
    """Return what was typed for each field; None where that is no answer."""
    content: dict[str, Any] = {}
    for field in question.fields:
        value = await _typed(field)
        if value is not None:
            content[field.name] = value
        elif field.is_required:
            return None
    click.echo("  send this to the server? y, n: ", err=True, nl=False)
    line = await typed_line() or ""
    return content if line.strip().lower() in YES else None


async def _typed(field: Field) -> str | float | bool | None:
    """Return what was typed for a field; None for an empty line, or where it never fits."""
    needed = "" if field.is_required else ", or nothing"
    choices = f"one of {', '.join(field.choices)}"[:CHOICES_CHARS] if field.choices else ""
    about = "; ".join(part for part in (field.shown, choices) if part)
    shown = f" ({visible(about)})" if about else ""
    for _ in range(TRIES):
        click.echo(f"  {visible(field.name)}{shown}{needed}: ", err=True, nl=False)
        line = await typed_line()
        if line is None or not line.strip():
            return None
        try:
            return value_of(field, line)
        except ValueError as error:
            click.echo(f"  it must be {visible(str(error))}", err=True)
    return None


def _is_someone_there() -> bool:
    return all(is_open(each) and each.isatty() for each in (sys.stdin, sys.stderr))


def _question(asked: ApprovalAsked) -> str:
    phase = f"{asked.name}: " if asked.subject == Subject.PHASE else ""
    return f"{phase}{visible(asked.shown)} ({visible(asked.why)})"


async def typed_line() -> str | None:
    """Read one line without holding the loop up; None at the end of the input."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline() or None


__all__ = ["BY", "CHOICES_CHARS", "NO", "TRIES", "YES", "TerminalApprover", "typed_line"]
