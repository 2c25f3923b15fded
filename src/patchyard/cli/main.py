"""The command `agents`: finds the subcommand and imports only that."""

import gc
import importlib
import io
import sys
from collections.abc import Mapping
from typing import IO, Any

import click

from patchyard.cli.interrupts import hear_interrupts

COMMANDS: Mapping[str, tuple[str, str]] = {
    "action": ("patchyard.cli.action:action", "Keep reusable templates of plans."),
    "config": ("patchyard.cli.config:config", "Show and check settings, and where they came from."),
    "demo": ("patchyard.cli.demo:demo", "Run the main job on a bundled task, without key or net."),
    "doctor": ("patchyard.cli.doctor:doctor", "Say what works here, what does not, and the cure."),
    "env": ("patchyard.cli.env:env", "Say which kinds of environment work here."),
    "disk": ("patchyard.cli.disk:disk", "Say what lies where, how much, and what may go."),
    "gc": ("patchyard.cli.gc:gc", "Return what plans have left on this machine."),
    "init": ("patchyard.cli.init:init", "Write settings for this repository, found by its files."),
    "invariant": ("patchyard.cli.invariant:invariant", "Say what must stay true."),
    "mcp": ("patchyard.cli.mcp:mcp", "Say which MCP servers there are, and be one."),
    "model": ("patchyard.cli.model:model", "Say which models can be asked."),
    "plan": ("patchyard.cli.plan:plan", "Follow, show, apply and control plans."),
    "project": ("patchyard.cli.project:project", "Name repositories and set what counts there."),
    "resource": ("patchyard.cli.resource:resource", "Say what projects may use."),
    "role": ("patchyard.cli.role:role", "Say who can work on a task."),
    "run": ("patchyard.cli.run:run", "Carry out a task on this repository, with proof."),
    "worker": ("patchyard.cli.worker:worker", "Carry out plans that wait in the queue."),
    "trust": ("patchyard.cli.trust:trust", "Let a repository's own settings decide."),
}


MEANT: Mapping[str, tuple[str, ...]] = {
    "continue": ("resume",),
    "delete": ("remove", "gc"),
    "inspect": ("show", "status"),
    "log": ("logs",),
    "ls": ("list",),
    "patch": ("diff",),
    "rm": ("remove", "gc"),
    "show": ("status", "list"),
    "start": ("use", "run"),
    "stop": ("cancel",),
}
"""What people type who know other programs, and which of ours they may mean."""

KEPT_RECORDS = 50_000
"""New objects between two looks for garbage: a journal is read into many that stay."""


class Group(click.Group):
    """A group of commands; an unknown one names the nearest and lists all."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command."""
        name = args[0]
        if not name.startswith("-") and name not in self.list_commands(ctx):
            from patchyard.domain.errors import UnknownName  # noqa: PLC0415 - only on this path

            names = self.list_commands(ctx)
            error = UnknownName.among("command", name, names)
            meant = next((other for other in MEANT.get(name, ()) if other in names), "")
            if meant:
                error.message = f"unknown command {name!r}. Did you mean {meant!r}?"
            raise click.UsageError(f"{error.message} ({error.hint})", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
    """A group that knows its commands by name and imports one when it runs."""

    def __init__(self, *args: Any, table: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, sorted."""
        return sorted({*self._table, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        entry = self._table.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = entry[0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing them."""
        rows = [(name, self._table[name][1]) for name in sorted(self._table)]
        rows += [
            (name, command.get_short_help_str())
            for name in super().list_commands(ctx)
            if (command := super(LazyGroup, self).get_command(ctx, name)) is not None
        ]
        with formatter.section("Commands"):
            formatter.write_dl(sorted(rows))


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: agents run 'mend the failing test in tests/test_dates.py' --apply worktree",
)
@click.version_option(package_name="patchyard", prog_name="agents")
def agents() -> None:
    """Let coding agents work on your repository: planned, sandboxed, proven, handed over."""


def take_any_text(stream: IO[str] | None) -> None:
    """Let a stream write what is no UTF-8, as paths may be, escaped: never end in a traceback."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """Entry point of `agents` and `patchyard`."""
    hear_interrupts()
    take_any_text(sys.stdout)
    gc.set_threshold(KEPT_RECORDS)
    try:
        code = agents.main(prog_name="agents", standalone_mode=False)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        from patchyard.cli.outcome import show_usage_error  # noqa: PLC0415 - only on this path

        sys.exit(show_usage_error(error, sys.argv[1:]))
    sys.exit(code if isinstance(code, int) else 0)  # click returns what Exit was raised with


__all__ = [
    "COMMANDS",
    "KEPT_RECORDS",
    "MEANT",
    "Group",
    "LazyGroup",
    "agents",
    "main",
    "take_any_text",
]
