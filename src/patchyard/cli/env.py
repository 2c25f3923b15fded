"""`agents env list|check|probe`: which kinds start here, what they show, what they stop."""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from patchyard.assembly import environment_for, open_equipment, open_prober
from patchyard.cli.cataloguing import table
from patchyard.cli.checking import UNSTARTED, Checked, checked
from patchyard.cli.lacking import placed
from patchyard.cli.main import Group
from patchyard.cli.outcome import Outcome, carry_out, format_option, one_line, paint, visible
from patchyard.domain.codec import to_json
from patchyard.domain.environment import (
    HERE,
    STRENGTH,
    ExecutionEnvironment,
    Readiness,
    strength_of,
)
from patchyard.domain.errors import (
    EnvironmentUnavailable,
    PatchyardError,
    Unavailable,
    WorkFailed,
)
from patchyard.engine import trying
from patchyard.probing.attack import Verdict

if TYPE_CHECKING:
    from patchyard.probing.attack import Report

FOUND = (
    *("engine", "socket", "image", "runtime", "gvisor", "address", "carries", "qemu", "kernel"),
    *("config", "state", "location"),
)
"""Facts that are said to people."""
ASKED = frozenset({"image", "runtime", "address", "carries", "config", "location"})
"""Those that somebody has set: where it does not start, nobody knows whether they are there."""
PROBE_HINT = "do not run what you do not trust there; please report it (SECURITY.md says how)"


@click.group(cls=Group, epilog="Example: agents env check process")
def env() -> None:
    """Say which kinds of environment work here, and what they let an agent see."""


@env.command(
    "list",
    short_help="List the kinds and whether they start here.",
    epilog="Example: agents env list --format json",
)
@format_option
def list_kinds(output_format: str) -> None:
    """List the kinds, weakest first, each really started with a time limit."""

    async def work() -> Outcome:
        found, untried = await _tried()
        rows = [_row(_named(each)) for each in sorted(found, key=lambda r: STRENGTH[r.kind])]
        lines = [readiness_line(row["kind"], row) for row in rows]
        if untried is not None:
            cure = f" (cure: {visible(untried.hint)})" if untried.hint else ""
            lines.append(f"resources were not looked at: {visible(untried.message)}{cure}")
        data = {"environments": rows, "untried": untried.message if untried else ""}
        return Outcome(data=data, text="\n".join(lines))

    carry_out("env list", output_format, work)


@env.command(
    short_help="Really start a kind or a resource; print what it needs, has and shows.",
    epilog="Example: agents env check process",
)
@click.argument("place", metavar="KIND|RESOURCE")
@format_option
def check(place: str, output_format: str) -> None:
    """Start one with a time limit; print what it needs and has, its walls, and what holds limits.

    Every resource that was added can be named. A devcontainer that is not built yet is looked at
    and not built. In a checkout or a folder nothing runs: whether it is there is said.
    """

    async def work() -> Outcome:
        async with open_equipment(os.environ) as equipment:
            found = await checked(equipment, place)
        data = _data(found)
        error = None
        if not found.is_ready:
            error = EnvironmentUnavailable(found.cause, hint=found.cure)
        rows = [*_about(found), *_rows(data, "visible"), *_rows(data, "limits")]
        head = _head(found)
        return Outcome(data=data, text="\n".join([head, *rows]), error=error)

    carry_out("env check", output_format, work)


@env.command(
    short_help="Attack one kind from inside and print what it stops.",
    epilog="Example: agents env probe process",
)
@click.argument("place", metavar="KIND|RESOURCE")
@format_option
def probe(place: str, output_format: str) -> None:
    """Run the isolation battery against a kind or a resource: a verdict for each attack.

    `held`: it works where nothing protects, and not in there. `SUCCEEDED`: it got through.
    `known`: it got through, and is listed as not stopped by this kind. `not shown`: it works
    nowhere on this machine. Everything that is attacked is bait of the battery's own. Exit code 1:
    something succeeded that is not listed.
    """

    async def work() -> Outcome:
        async with open_prober(os.environ, place, show=visible) as prober:
            report = await prober.run()
        counts = {str(verdict): report.count(verdict) for verdict in Verdict}
        data = {**to_json(report), "counts": counts}
        return Outcome(data=data, text=_verdicts(report), error=_failure(report))

    carry_out("env probe", output_format, work)


async def _tried() -> tuple[list[Readiness], PatchyardError | None]:
    """Try each kind; where the state folder cannot be used, without what was added, and why."""
    try:
        async with open_equipment(os.environ) as equipment:
            return [await trying.check(equipment, kind) for kind in equipment.environments], None
    except Unavailable as error:
        untried = placed(error, os.environ)
    return [await _alone(kind) for kind in HERE], untried


async def _alone(kind: ExecutionEnvironment) -> Readiness:
    try:
        return await environment_for(kind, os.environ).check()
    except Unavailable as error:
        return Readiness(kind=kind, is_ready=False, cause=error.message, cure=error.hint)


def _named(ready: Readiness) -> Readiness:
    """Return it with the folder of ours that lies on a disk which takes nothing."""
    error = placed(Unavailable(ready.cause, hint=ready.cure), os.environ)
    return ready if ready.is_ready else replace(ready, cause=error.message, cure=error.hint)


def _failure(report: "Report") -> PatchyardError | None:
    """Return what is wrong with the kind, None when nothing is."""
    if report.unlisted:
        names = ", ".join(ruling.attack for ruling in report.unlisted)
        return WorkFailed(f"{report.kind} did not stop: {names}", hint=PROBE_HINT)
    if not report.has_run:
        cause = f"nothing could be tried in {report.kind}: {report.rulings[0].note}"
        return EnvironmentUnavailable(cause, hint="the battery needs `python3` inside")
    return None


def _verdicts(report: "Report") -> str:
    """Return the rulings by group, and their numbers."""
    colours = {Verdict.HELD: "green", Verdict.SUCCEEDED: "red", Verdict.KNOWN: "yellow"}
    lines: list[str] = []
    group = None
    for ruling in report.rulings:
        if ruling.group is not group:
            group = ruling.group
            lines += ["", str(group)]
        verdict = f"{ruling.verdict:9}"
        verdict = paint(verdict, colours[ruling.verdict]) if ruling.verdict in colours else verdict
        is_plain = ruling.verdict is Verdict.HELD
        note = "" if is_plain or not ruling.note else f" ({one_line(ruling.note)})"
        lines.append(f"  {verdict}  {ruling.title}{note}")
    numbers = ", ".join(f"{report.count(verdict)} {verdict}" for verdict in Verdict)
    return "\n".join([*lines[1:], "", f"{report.kind}: {numbers}"])


def _row(readiness: Readiness) -> dict[str, Any]:
    return {
        "kind": str(readiness.kind),
        "strength": strength_of(readiness.kind, str(readiness.facts.get("runtime", ""))),
        "is_ready": readiness.is_ready,
        "cause": readiness.cause,
        "cure": readiness.cure,
        "facts": to_json(readiness.facts),
    }


def _data(found: Checked) -> dict[str, Any]:
    names = ("name", "type", "is_ready", "cause", "cure", "needs", "walls")
    strength = None if found.kind is None else strength_of(found.kind, found.runtime)
    return {
        **{name: getattr(found, name) for name in names},
        "kind": None if found.kind is None else str(found.kind),
        "strength": strength,
        "facts": to_json(found.facts),
    }


def _head(found: Checked) -> str:
    """Return the first line; why one does not start follows as the error, with its cure."""
    if found.is_ready:
        word = "works" if found.kind else "is there"
        word = "looks well" if found.facts.get(UNSTARTED) else word
        note = found.facts.get("note")
        return f"{visible(found.name):10} {paint(word, 'green')}{_note(note)}"
    word = "does not start" if found.kind else "is not there"
    return f"{visible(found.name):10} {paint(word, 'red')}"


def _about(found: Checked) -> list[str]:
    """Return what it needs, what was found, and what its walls are."""
    facts = found.facts
    known = {name: str(facts[name]) for name in FOUND if facts.get(name)}
    asked = frozenset() if found.is_ready else ASKED
    weaker = ", ".join(facts.get(trying.WEAKER, ()))
    rows = {
        "type": found.type,
        "needs": found.needs,
        "asked": _listed(known, asked & known.keys()),
        "found": _listed(known, known.keys() - asked),
        "walls": found.walls,
        "weaker": f"nothing there holds the limits that were set: {weaker}" if weaker else "",
    }
    return [
        f"  {paint(f'{name:8}', 'cyan')} {visible(text)}" for name, text in rows.items() if text
    ]


def _listed(known: Mapping[str, str], names: Collection[str]) -> str:
    said = {name: text for name, text in known.items() if name in names}
    return ", ".join(
        text if text.startswith(name) else f"{name} {text}" for name, text in said.items()
    )


def _note(note: object) -> str:
    return f" ({visible(str(note))})" if note else ""


def readiness_line(name: str, row: Mapping[str, Any]) -> str:
    """Return one line that says whether what is called `name` works."""
    if row["is_ready"]:
        return f"{name:12} {paint('works', 'green')}{_note(row['facts'].get('note'))}"
    cure = f" (cure: {visible(row['cure'])})" if row["cure"] else ""
    return f"{name:12} {paint('does not start', 'red')}: {visible(row['cause'])}{cure}"


def _rows(row: Mapping[str, Any], name: str) -> list[str]:
    listed = row["facts"].get(name, [])
    cells = [[str(value) for value in entry.values()] for entry in listed]
    return [f"  {line}" for line in table(cells, empty="").splitlines()]


__all__ = ["ASKED", "FOUND", "env", "readiness_line"]
