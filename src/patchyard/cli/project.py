"""`agents project`: repositories under a name, what is set for them, what is linked to them."""

import asyncio
import os
from typing import Any

import click

from patchyard.cli.cataloguing import (
    checkout_of,
    context_data,
    fields,
    project_data,
    project_named,
    still_named,
    table,
    with_catalogue,
)
from patchyard.cli.main import Group
from patchyard.cli.opening import engine_opened
from patchyard.cli.outcome import Outcome, carry_out, format_option
from patchyard.clients.yaml import parse_yaml
from patchyard.domain.environment import ExecutionEnvironment, Readiness
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.project import CONTEXT_KEYS, Project
from patchyard.domain.remotes import is_remote
from patchyard.engine.catalogue import Catalogue

UNSET = "unset"  # the value that takes a setting away


@click.group(cls=Group, epilog="Example: agents project context set execution_environment process")
def project() -> None:
    """Repositories under a name, and what is set for them."""


@project.command(epilog="Example: agents project create shop --repo ~/src/shop")
@click.argument("name")
@click.option("--repo", default=".", show_default=True, help="A checkout's path, or a URL.")
@format_option
def create(name: str, repo: str, output_format: str) -> None:
    """Make a project; its environment is `process` where that works on this machine.

    What was set for the checkout without a project's name goes over to it. A repository by its URL
    (https, ssh, file) is cloned into the home, and fetched again for each plan.
    """

    async def work() -> Outcome:
        top, notes = await _checkout(repo)
        async with engine_opened() as equipment:
            found = await equipment.environments[ExecutionEnvironment.PROCESS].check()
            kind = ExecutionEnvironment.PROCESS if found.is_ready else None
            made = Project(name=name, repository=top, execution_environment=kind)
            catalogue = Catalogue(equipment.store.journal, equipment.clock)
            made = await catalogue.create_project(made)
            is_ours = made.execution_environment == kind
            note = _default_note(name, found) if is_ours else ""
            data = {**project_data(made, await catalogue.holdings()), "note": note or None}
            return Outcome(data=data, text="\n".join([*notes, "created", fields(data)]))

    carry_out("project create", output_format, work)


def _default_note(name: str, found: Readiness) -> str:
    """Say where commands of a project run for which nothing was chosen, and why (F2.25)."""
    if found.is_ready:
        return (
            "commands run in `process`: nothing was chosen, and `host` has no walls; `agents"
            f" project context set {name} execution_environment unset` goes back to the default"
        )
    return (
        f"no environment is stored, for `process` does not work here ({found.cause}): commands run"
        " on `host`, WITHOUT WALLS, unless a setting names another kind; cure:"
        f" {found.cure}, then `agents project context set {name} execution_environment process`"
    )


async def _checkout(repo: str) -> tuple[str, list[str]]:
    """Return the checkout that is meant, cloned where it is named by an address; what to say."""
    if not is_remote(repo):
        return checkout_of(repo), []
    from patchyard.cloning import brought, told  # noqa: PLC0415 - for a clone alone

    found = await asyncio.to_thread(brought, repo, None, os.environ)
    return str(found.top), [told(found)]


@project.command("list", epilog="Example: agents project list --format json")
@format_option
def list_projects(output_format: str) -> None:
    """List the projects."""

    async def job(catalogue: Catalogue) -> Outcome:
        holdings = await catalogue.holdings()
        found = [project_data(p, holdings) for _, p in sorted(holdings.projects.items())]
        rows = [[p["name"], p["execution_environment"], p["repository"]] for p in found]
        return Outcome(data={"projects": found}, text=table(rows, empty="no projects"))

    with_catalogue("project list", output_format, job)


@project.command(epilog="Example: agents project show shop")
@click.argument("name", required=False)
@format_option
def show(name: str | None, output_format: str) -> None:
    """Show a project; without NAME that of this repository."""

    async def job(catalogue: Catalogue) -> Outcome:
        found = await project_named(catalogue, name)
        data = project_data(found, await catalogue.holdings())
        return Outcome(data=data, text=fields(data))

    with_catalogue("project show", output_format, job)


@project.command(epilog="Example: agents project delete shop")
@click.argument("name")
@format_option
def delete(name: str, output_format: str) -> None:
    """Take a project away; the repository and its plans stay."""

    async def job(catalogue: Catalogue) -> Outcome:
        await catalogue.delete_project(name)
        return Outcome(data={"name": name}, text=f"deleted {name}")

    with_catalogue("project delete", output_format, job)


@project.command("link-resource", epilog="Example: agents project link-resource shop docs")
@click.argument("name")
@click.argument("resource")
@format_option
def link_resource(name: str, resource: str, output_format: str) -> None:
    """Let a project use a resource."""

    async def job(catalogue: Catalogue) -> Outcome:
        linked = await catalogue.link(name, resource)
        data = project_data(linked, await catalogue.holdings())
        return Outcome(data=data, text=f"linked {resource} to {name}")

    with_catalogue("project link-resource", output_format, job)


@project.command("unlink-resource", epilog="Example: agents project unlink-resource shop docs")
@click.argument("name")
@click.argument("resource")
@format_option
def unlink_resource(name: str, resource: str, output_format: str) -> None:
    """Take the link to a resource back; the resource and what was set stay.

    Plans that were made before keep it.
    """

    async def job(catalogue: Catalogue) -> Outcome:
        left = await catalogue.unlink(name, resource)
        data = project_data(left, await catalogue.holdings())
        text = "\n".join([f"unlinked {resource} from {name}", *still_named(left, resource)])
        return Outcome(data=data, text=text)

    with_catalogue("project unlink-resource", output_format, job)


@project.group(cls=Group, epilog="Example: agents project context show")
def context() -> None:
    """What is set for a project; without NAME for that of this repository."""


@context.command(
    "set",
    short_help="Set KEY to VALUE; the word `unset` takes it away.",
    epilog="Example: agents project context set execution_environment container",
)
@click.argument("words", metavar="[NAME] KEY VALUE", nargs=-1, required=True)
@format_option
def set_value(words: tuple[str, ...], output_format: str) -> None:
    """Set KEY to VALUE, written as YAML; the word `unset` for VALUE takes away what was set.

    Keys: execution_environment, execution_env_priority, execution_env_discovery, validate, gates,
    setup, protected_paths, limits (of each plan), environment_limits (memory, cpus, disk … of each
    environment), budget (of all plans together), automation_profile, network, secrets, mcp_servers.
    Priority and discovery take the chain with six levels: docs/reference/execution_environment.md.
    """

    async def job(catalogue: Catalogue) -> Outcome:
        name, key, value = _read(words)
        found = await project_named(catalogue, name)
        changed = await catalogue.set_context(found.name, key, value)
        shown = context_data(changed)
        data = {"name": changed.name, "context": shown}
        return Outcome(data=data, text=f"{changed.name}: {fields({key: shown[key]})}")

    with_catalogue("project context set", output_format, job)


def _read(words: tuple[str, ...]) -> tuple[str | None, str, Any]:
    if len(words) not in {2, 3}:
        raise UsageError("say [NAME] KEY VALUE", hint=f"keys: {', '.join(CONTEXT_KEYS)}")
    name = words[0] if len(words) == 3 else None
    key, text = words[-2], words[-1]
    if key not in CONTEXT_KEYS:
        raise UnknownName.among("context key", key, CONTEXT_KEYS)
    if text == UNSET:
        return name, key, None
    if key in {"setup", "validate"} and not text.lstrip().startswith("["):
        return name, key, [text] if text.strip() else []
    if key == "protected_paths" and not text.lstrip().startswith("["):
        return name, key, [part.strip() for part in text.split(",") if part.strip()]
    value = parse_yaml(text, name=key).value
    return name, key, value


@context.command("show", epilog="Example: agents project context show shop")
@click.argument("name", required=False)
@format_option
def show_context(name: str | None, output_format: str) -> None:
    """Show what is set for a project."""

    async def job(catalogue: Catalogue) -> Outcome:
        found = await project_named(catalogue, name)
        shown = context_data(found)
        return Outcome(data={"name": found.name, "context": shown}, text=fields(shown))

    with_catalogue("project context show", output_format, job)


__all__ = ["UNSET", "context", "project"]
