"""`agents plan diff|apply|unapply`: the change set, looked at, handed over, taken back."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import click

from patchyard.cli.looking import look_at
from patchyard.cli.opening import owned
from patchyard.cli.outcome import (
    JSON,
    Outcome,
    carry_out,
    counted,
    format_option,
    is_open,
    one_line,
    paint,
)
from patchyard.cli.patch_output import as_json, bring_out, show
from patchyard.cli.plan_act import plan_argument, stream_option
from patchyard.cli.plan_fork import keep_comments
from patchyard.cli.screen import SIGNS, lines_of
from patchyard.cli.working import watching
from patchyard.clients.own_links import resolved
from patchyard.domain.errors import PatchyardError, UnknownName
from patchyard.domain.names import chosen_paths
from patchyard.domain.remotes import looks_cloned
from patchyard.domain.state import PlanState
from patchyard.engine.equipment import Equipment
from patchyard.engine.handing import Handing
from patchyard.engine.ledger import Ledger
from patchyard.engine.report import plan_data
from patchyard.engine.watching import Watching
from patchyard.intake import DESTINATIONS

LISTED = 10  # changed files named in a hint

Do = Callable[[Ledger, Handing], Awaitable[str]]


@click.command(epilog="Example: agents plan diff @last | git apply --check --binary")
@plan_argument
@click.argument("paths", nargs=-1)
@click.option("--stat", is_flag=True, help="Only the files and their counts.")
@click.option(
    "--comment",
    "comments",
    type=(str, str),
    multiple=True,
    metavar="FILE:LINE TEXT",
    help="Keep a comment for `agents plan retry`; may be repeated.",
)
@format_option
def diff(
    plan_id: str,
    paths: tuple[str, ...],
    comments: tuple[tuple[str, str], ...],
    output_format: str,
    *,
    stat: bool,
) -> None:
    """Print the change set as a patch that `git apply --binary` takes."""
    if comments:
        keep_comments(plan_id, comments, output_format)

    async def look(equipment: Equipment, ledger: Ledger) -> Outcome:
        base, changeset = await Handing(equipment, ledger).changeset()
        touched = {name for c in changeset.changes for name in (c.path, c.old_path) if name}
        chosen = chosen_paths(paths)
        for path in chosen:
            if not any(name == path or _lies_in(name, path) for name in touched):
                raise UnknownName(f"no change to {path}", hint=_changed(touched))
        if stat:
            lines = [
                f"{SIGNS[change.status]} {one_line(change.path)}  {lines_of(asdict(change))}"
                for change in changeset.changes
            ]
            return Outcome(data=(await plan_data(ledger))["changeset"], text="\n".join(lines))
        is_shown = is_open(sys.stdout) and sys.stdout.isatty()
        has_binary = output_format == JSON or not is_shown
        patch = equipment.trees.diff(base, changeset, paths=chosen, has_binary=has_binary)
        if output_format == JSON:
            return Outcome(data={"changeset_id": changeset.id, "patch": await as_json(patch)})
        await (show(patch) if is_shown else bring_out(patch))
        return Outcome()

    look_at("plan diff", plan_id, output_format, look)


def _lies_in(name: str, folder: str) -> bool:
    return name.startswith(f"{folder}/")


def _changed(names: set[str]) -> str:
    shown = sorted(names)[:LISTED]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"changed: {one_line(', '.join(shown))}{more}" if shown else "the change set is empty"


@click.command(epilog="Example: agents plan apply @last --to branch")
@plan_argument
@click.argument("paths", nargs=-1)
@click.option("--to", default="worktree", show_default=True, help="worktree, branch, merge, patch.")
@click.option("--name", default="", help="For branch: its name. For patch: the file to write.")
@click.option("--allow-path", "allow_paths", multiple=True, help="Let this protected path pass.")
@stream_option
@format_option
def apply(
    plan_id: str,
    paths: tuple[str, ...],
    to: str,
    name: str,
    allow_paths: tuple[str, ...],
    output_format: str,
    *,
    stream: bool,
) -> None:
    """Hand the stored change set over: all of it or nothing."""

    async def work(ledger: Ledger, handing: Handing) -> str:
        known = [name for name in DESTINATIONS if name != "none"]
        if to not in known:
            raise UnknownName.among("destination", to, known)
        receipt = await handing.apply(
            to, paths=paths, allow_paths=allow_paths, name=_named(to, name, ledger.plan_id)
        )
        if receipt is None:
            return "nothing to apply: the change set is empty"
        where = f" ({receipt.reference})" if receipt.reference else ""
        base = ledger.state.base
        top = base.repository if base is not None and to == "branch" else ""
        fetch = f"take it: git fetch {top} {receipt.reference}\n" if looks_cloned(top) else ""
        proof = _proof(ledger, is_part=bool(chosen_paths(paths)))
        return (
            f"applied to {to}{where}: {counted(len(receipt.touched), 'file')}{proof}\n{fetch}"
            f"take it back with: agents plan unapply {ledger.plan_id}\n"
            f"journal head: {await ledger.head()}"
        )

    _hand("plan apply", plan_id, output_format, work, stream=stream)


def _proof(ledger: Ledger, *, is_part: bool) -> str:
    """Say so when what was applied has no proof."""
    validation, changeset = ledger.state.validation, ledger.state.changeset
    is_proven = validation is not None and validation.is_proof and changeset is not None
    if is_proven and not is_part:
        return ""
    why = "only the whole was proven" if is_proven else "no validation command was set"
    return paint(f" (unproven: {why})", "yellow")


def _named(to: str, name: str, plan_id: str) -> str:
    """A patch is written where the user stands, a branch has the plan's name."""
    if to != "patch":
        return name
    path = Path.cwd() / (name or f"{plan_id}.patch")
    return str(resolved(path.parent) / path.name)


@click.command(epilog="Example: agents plan unapply @last")
@plan_argument
@format_option
def unapply(plan_id: str, output_format: str) -> None:
    """Take the last hand-over back, while the touched files are unchanged."""

    async def work(_ledger: Ledger, handing: Handing) -> str:
        paths = await handing.unapply()
        return f"taken back: {counted(len(paths), 'file')}"

    _hand("plan unapply", plan_id, output_format, work, is_back=True)


def _hand(
    command: str,
    plan_id: str,
    output_format: str,
    do: Do,
    *,
    stream: bool = False,
    is_back: bool = False,
) -> None:
    async def work() -> Outcome:
        is_json = output_format == JSON
        async with owned(plan_id) as (equipment, ledger):
            seen = watching(ledger.plan_id, is_json=is_json, stream=True)
            with seen if stream else nullcontext(Watching()) as watched:
                if watched.on_event is not None:
                    ledger.listeners.append(watched.on_event)
                return await _outcome(do, ledger, Handing(equipment, ledger), is_back=is_back)

    carry_out(command, output_format, work, stream=stream)


async def _outcome(do: Do, ledger: Ledger, handing: Handing, *, is_back: bool = False) -> Outcome:
    """Return what is said of a hand-over, or of taking one back.

    One that an interrupt came too late for was done.
    """
    before = ledger.state
    try:
        text = await do(ledger, handing)
        data = await plan_data(ledger)
    except asyncio.CancelledError as cut:
        is_done = _is_taken_back if is_back else _is_applied
        if not is_done(before, ledger.state):
            raise
        if isinstance(cut.__cause__, PatchyardError):  # it is done but for what this names
            raise cut.__cause__ from cut
        text = f"{'taken back' if is_back else 'applied'}: the interrupt came after it"
        data = await plan_data(ledger)
    return Outcome(data=data, text=text)


def _is_applied(before: PlanState, now: PlanState) -> bool:
    return len(now.handed) > len(before.handed)


def _is_taken_back(before: PlanState, now: PlanState) -> bool:
    """Whether a hand-over is gone, or what was begun of one that was cut short."""
    was_begun = before.intended is not None and now.intended is None
    return was_begun or len(now.handed) < len(before.handed)


__all__ = ["LISTED", "Do", "apply", "diff", "unapply"]
