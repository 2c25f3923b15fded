"""Commands on what an installation holds beside plans: open it, do one thing, print what is so."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from patchyard.cli.outcome import Outcome, carry_out, visible
from patchyard.clients.clones import Clones
from patchyard.config import places
from patchyard.domain.ceilings import shown_limit
from patchyard.domain.codec import to_json
from patchyard.domain.environment_limits import KEY
from patchyard.domain.errors import UsageError
from patchyard.domain.gate_settings import Gates
from patchyard.domain.holdings import Holdings
from patchyard.domain.project import Project
from patchyard.domain.remotes import is_remote
from patchyard.engine.catalogue import Catalogue
from patchyard.storage import open_storage

WIDTH = 80  # columns that a list for people should fit
Job = Callable[[Catalogue], Awaitable[Outcome]]


def with_catalogue(command: str, output_format: str, job: Job) -> None:
    """Open the catalogue, do `job` on it and leave with its outcome."""

    async def work() -> Outcome:
        async with open_storage(os.environ) as storage:
            return await job(Catalogue(storage.journal, storage.clock))

    carry_out(command, output_format, work)


def checkout_of(place: str) -> str:
    """Return the top level of the checkout around `place`, for an address that of its clone.

    Raises UsageError with the cure, also for an address that was not cloned yet.
    """
    if is_remote(place):
        top = Clones(places(os.environ).home, os.environ).place_of(place)
        if (top / ".git").is_dir():
            return str(top)
        raise UsageError(
            "there is no clone of that repository yet",
            hint="`agents project create NAME --repo URL` clones it, and so does `agents run`",
        )
    start = Path(os.path.realpath(Path(place).expanduser()))
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return str(folder)
    raise UsageError(
        f"{place} is not in a git repository", hint="name a checkout, or `git init` one there"
    )


async def project_named(catalogue: Catalogue, name: str | None) -> Project:
    """Return the project of that name, or the one of the checkout around this folder."""
    if name is not None:
        return (await catalogue.holdings()).project(name)
    return await catalogue.project_here(checkout_of("."))


def table(rows: Sequence[Sequence[str]], *, empty: str) -> str:
    """Return rows as aligned lines; `empty` when there are none."""
    if not rows:
        return empty
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[n]) for row in shown) for n in range(len(shown[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    )


def brief(text: str, most: int) -> str:
    """Return a text as one line of `most` characters, with a sign where more follows."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def filled(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record without what is empty there."""
    return {key: value for key, value in body.items() if value not in (None, "", {}, [])}


def fields(body: Mapping[str, Any]) -> str:
    """Return a record as `name: value` lines."""
    return "\n".join(f"{key}: {_said(value)}" for key, value in body.items())


def _said(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        said = [f"{key} {_said(item)}" for key, item in value.items() if item is not None]
        return ", ".join(said) or "nothing set"
    if isinstance(value, (list, tuple)):
        return ", ".join(visible(str(item)) for item in value) or "none"
    return visible(str(value))


def _gates(said: Gates | None) -> Mapping[str, str | bool] | None:
    if said is None:
        return None
    return {name: False if gate is None else gate.shown for name, gate in said.items()}


def project_data(project: Project, holdings: Holdings) -> dict[str, Any]:
    """Return a project as programs see it; an unset environment shows the chain's default (A5)."""
    kind = project.execution_environment
    return {
        "name": project.name,
        "repository": project.repository,
        "execution_environment": str(kind or "host"),
        "execution_environment_set": kind is not None,
        "resources": [resource.name for resource in project.linked(holdings.resources)],
        "is_implicit": project.is_implicit,
        "context": context_data(project),
    }


def still_named(project: Project, resource: str) -> list[str]:
    """Return a line for a project whose work is set to happen in a resource it has no more."""
    if project.execution_environment != resource:
        return []
    cure = f"agents project context set {project.name} execution_environment process"
    return [f"{project.name} is still set to work there; change it: {cure}"]


def context_data(project: Project) -> dict[str, Any]:
    """Return what is set in a project's context, None where nothing is."""
    return {
        "automation_profile": project.automation_profile,
        "execution_environment": _text(project.execution_environment),
        "execution_env_priority": _text(project.execution_env_priority),
        "execution_env_discovery": project.execution_env_discovery,
        "setup": _list(project.setup),
        "validate": _list(project.validate),
        "gates": _gates(project.gates),
        "protected_paths": _list(project.protected_paths),
        "limits": _said_of(project.limits),
        KEY: _said_of(project.environment_limits),
        "mcp_servers": None
        if project.mcp_servers is None
        else {name: filled(to_json(each)) for name, each in project.mcp_servers.items()},
        "network": _said_of(project.network),
        "secrets": _list(project.secrets),
        "budget": None
        if project.budget is None
        else {key: shown_limit(key, limit) for key, limit in project.budget.items()},
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _said_of(settings: object) -> dict[str, Any] | None:
    """What a record of settings says, without what it says nothing of."""
    if settings is None:
        return None
    said = {key: value for key, value in vars(settings).items() if value is not None}
    return {key: list(each) if isinstance(each, tuple) else each for key, each in said.items()}


def _list(value: Sequence[str] | None) -> list[str] | None:
    return None if value is None else list(value)


__all__ = [
    "WIDTH",
    "Job",
    "brief",
    "checkout_of",
    "context_data",
    "fields",
    "filled",
    "project_data",
    "project_named",
    "still_named",
    "table",
    "with_catalogue",
]
