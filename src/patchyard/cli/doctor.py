"""`agents doctor`: what works on this machine, what does not, why, and the cure."""

import asyncio
import os
import re
import shlex
import shutil
import sqlite3
import sys
from pathlib import Path

import click

from patchyard.assembly import open_equipment
from patchyard.cli.findings import Finding, bad, good, misread, told_once
from patchyard.cli.model_rows import model_rows
from patchyard.cli.outcome import Outcome, carry_out, format_option, paint, visible
from patchyard.cli.seeing import require_settings_here
from patchyard.clients.docker import connected, engine_socket
from patchyard.clients.gvisors import old_gvisors
from patchyard.clients.pool_boards import boards
from patchyard.clients.room import FEWEST_FILES, free_files
from patchyard.config import places
from patchyard.domain import gvisor
from patchyard.domain.codec import to_json
from patchyard.domain.environment import Readiness
from patchyard.domain.errors import EnvironmentUnavailable, PatchyardError, UsageError, WorkFailed
from patchyard.domain.keeping import FREE_BYTES
from patchyard.domain.retention import GRACE_S, Family, is_left_build
from patchyard.domain.sizes import shown_bytes
from patchyard.engine import trying
from patchyard.engine.equipment import Equipment
from patchyard.engine.inspecting import doubts, inspect
from patchyard.stores.reading import is_closed
from patchyard.toolbox.finding import program
from patchyard.upkeep import rules
from patchyard.workspaces.commits import broken_refs
from patchyard.workspaces.source import top_of

OLDEST_GIT = (2, 30)
GIT_VERSION = re.compile(r"(?m)^git version (?P<version>(\d{1,9})\.(\d{1,9})\S*)", re.ASCII)
SHOWN = 5  # of what is wrong with the journal or the checkout


@click.command(epilog="Example: agents doctor --format json")
@format_option
def doctor(output_format: str) -> None:
    """Say what works on this machine, what does not, why, and the cure.

    Exit 1 only when something is missing that every plan needs (git, room, the database): without
    a model, for one, recipes work. Exit 2 when config.yaml, models.yaml or a variable is wrong.
    Providers are asked for their lists of models, which cost nothing; no model is asked.
    """

    async def work() -> Outcome:
        settings = await _settings()
        findings = [_python(), await _git(), _ripgrep(), _disk(), *await _checkout(), settings]
        try:
            findings += await _stores()
        except PatchyardError as error:
            findings.append(bad("database", error, is_needed=True))
        findings += await model_rows(has_settings=settings.is_good)
        return _outcome(told_once(findings))

    carry_out("doctor", output_format, work)


async def _settings() -> Finding:
    """Read the settings that a plan begun here would have."""
    try:
        await require_settings_here()
    except UsageError as error:
        return misread("settings", error)
    except PatchyardError as error:  # of the stores: the row of the database says more
        return bad("settings", error)
    return good("settings", "files and variables can be read")


async def _stores() -> list[Finding]:
    """Look at what lies in the home and start one of each kind. Raises what the stores do."""
    async with open_equipment(os.environ) as equipment:
        findings = [good("database", f"SQLite {sqlite3.sqlite_version}"), _home()]
        findings.append(await _journal(equipment))
        findings += await _doubts(equipment)
        findings += await left_builds(equipment)
        for kind in equipment.environments:
            ready = await trying.check(equipment, kind)
            findings.append(
                Finding(
                    name=f"environment {ready.kind}",
                    is_good=ready.is_ready,
                    is_needed=False,
                    said=_said(ready) if ready.is_ready else ready.cause,
                    cure=ready.cure,
                )
            )
    findings += await _gvisors()
    pools = boards(places(os.environ).home)
    return [*findings, *(good("pool", f"worker {pool.worker}: {pool.said}") for pool in pools)]


def _said(ready: Readiness) -> str:
    note = ready.facts.get("note")
    return f"really started and ended, {note}" if note else "really started and ended"


def _outcome(findings: list[Finding]) -> Outcome:
    missing = [finding for finding in findings if finding.is_needed and not finding.is_good]
    wrong = next((finding for finding in findings if finding.is_mistake), None)
    error: PatchyardError | None = None
    if wrong is not None:
        error = UsageError(wrong.said, hint=wrong.cure)
    elif missing:
        names = ", ".join(finding.name for finding in missing)
        error = WorkFailed(f"needed and not there: {names}", hint=missing[0].cure)
    data = {"findings": [to_json(finding) for finding in findings]}
    return Outcome(data=data, text="\n".join(_line(f) for f in findings), error=error)


def _line(finding: Finding) -> str:
    sign = paint("✓", "green") if finding.is_good else paint("✗", "red")
    cure = f"\n    cure: {visible(finding.cure)}" if finding.cure and not finding.is_good else ""
    return f"{sign} {finding.name:24} {visible(finding.said)}{cure}"


def _python() -> Finding:
    return good("python", sys.version.split()[0])


async def _git() -> Finding:
    path, said = await asyncio.to_thread(program, "git", ())
    found = GIT_VERSION.search(said)
    version = found["version"] if found else f"{path} does not say its version" if path else ""
    return Finding(
        name="git",
        is_good=found is not None and (int(found[2]), int(found[3])) >= OLDEST_GIT,
        is_needed=True,
        said=version or "not found",
        cure=f"install git {OLDEST_GIT[0]}.{OLDEST_GIT[1]} or newer",
    )


def _home() -> Finding:
    """Say whether plans can be begun and changed here, or only looked at."""
    where = places(os.environ)
    is_good = not is_closed(where.database)
    said = f"{where.home} can be written to" if is_good else f"{where.home} is read-only"
    if top := _checkout_around(where.home):
        said = (
            f"{said}; it lies in the checkout {top}: `run` there refuses it unless git ignores it"
        )
    cure = "mount it writable, or set PATCHYARD_HOME to another folder; plans can be looked at"
    return Finding(name="home", is_good=is_good, is_needed=True, said=said, cure=cure)


def _checkout_around(home: Path) -> Path | None:
    """Return the checkout that the home lies in; None where it lies in none."""
    try:
        return top_of(home)
    except PatchyardError:
        return None


async def _journal(equipment: Equipment) -> Finding:
    """Look at how the journal lies in its database, and whether each stream is there to its end."""
    found = await inspect(equipment)
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return Finding(
        name="journal",
        is_good=not found,
        is_needed=True,
        said="; ".join(found[:SHOWN]) + more if found else "no event is missing or damaged",
        cure="`agents plan verify ID` says more of a plan; restore the database from a backup",
    )


async def _doubts(equipment: Equipment) -> list[Finding]:
    """Name the unfinished plans whose last files may be lost; nothing is said of others."""
    found = await doubts(equipment)
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    named = "; ".join(f"{plan}: {why}" for plan, why in [*found.items()][:SHOWN])
    row = Finding(
        name="plan files",
        is_good=False,
        is_needed=False,
        said=f"what the last calls wrote may be lost: {named}{more}",
        cure="`agents plan resume ID` goes on from the last checkpoint",
    )
    return [row] if found else []


def _least_free() -> int:
    """Return how many bytes are to stay free; the default where settings cannot be read."""
    try:
        return rules(os.environ).free
    except UsageError:  # the row of the settings says it
        return FREE_BYTES


async def _checkout() -> list[Finding]:
    """Look for refs that git cannot read in the checkout around; nothing is said outside of one."""
    try:
        top = top_of(Path.cwd())
    except PatchyardError:
        return []
    try:
        broken = await asyncio.to_thread(broken_refs, top)
    except PatchyardError as error:
        return [bad("checkout", error)]
    refs = ", ".join([*broken][:SHOWN])
    cure = " ".join(f"rm {shlex.quote(str(top / place))};" for place in [*broken.values()][:SHOWN])
    return [
        Finding(
            name="checkout",
            is_good=not broken,
            is_needed=False,
            said=f"git cannot read {refs} of {top}" if broken else f"git reads all refs of {top}",
            cure=f"`{cure}` and make them again: `agents plan apply` does so for a plan's branch",
        )
    ]


async def left_builds(equipment: Equipment) -> list[Finding]:
    """Return each folder of an image's build that an engine left behind which was killed."""
    keepers = [each for each in equipment.keepers if each.family == Family.TEMPORARY]
    left = [
        (found, await keeper.size(found))
        for keeper in keepers
        for found in await keeper.found()
        if is_left_build(found)
    ]
    return [
        Finding(
            name="build folder",
            is_good=False,
            is_needed=False,
            said=f"{found.place} takes {shown_bytes(size)}; the engine that built there is gone",
            cure=f"`agents gc` deletes it {GRACE_S / 60:g} minutes after its last change;"
            f" at once: `rm -r {shlex.quote(found.place)}`",
        )
        for found, size in left
    ]


async def _gvisors() -> list[Finding]:
    """Return each old gVisor that the container engine knows, with what follows and the cure."""
    try:
        async with connected(engine_socket(os.environ)) as engine:
            found = await old_gvisors(engine)
    except EnvironmentUnavailable:
        return []  # the row of `container` says it
    return [
        Finding(
            name=f"runtime {name}",
            is_good=False,
            is_needed=False,
            said=f"gVisor of {day}, {gvisor.WHAT_FOLLOWS}",
            cure=gvisor.CURE,
        )
        for name, day in found.items()
    ]


def _ripgrep() -> Finding:
    path = shutil.which("rg")
    return Finding(
        name="ripgrep",
        is_good=path is not None,
        is_needed=False,
        said=path or "not found; searching is slower without",
        cure="install ripgrep",
    )


def _disk() -> Finding:
    try:
        home = places(os.environ).home
    except UsageError as error:
        return misread("disk", error)
    folder = home
    while not folder.exists():
        folder = folder.parent
    free, files = shutil.disk_usage(folder).free, free_files(folder)
    few = f", and room for {files:.0f} more files (`df -i`)" if files < FEWEST_FILES else ""
    return Finding(
        name="disk",
        is_good=free >= _least_free() and not few,
        is_needed=True,
        said=f"{free / 1024**3:.1f} GiB free at {home}{few}",
        cure="`agents gc` returns what no plan needs; or set PATCHYARD_HOME to a larger disk",
    )


__all__ = ["GIT_VERSION", "OLDEST_GIT", "doctor", "left_builds"]
