"""`agents resource`: what projects may use."""

import os
from pathlib import Path
from typing import Any

import click

from patchyard.cli.cataloguing import checkout_of, fields, table, with_catalogue
from patchyard.cli.main import Group
from patchyard.cli.outcome import Outcome, format_option
from patchyard.domain.environment import parse_kind
from patchyard.domain.errors import UsageError
from patchyard.domain.resource import CONTAINER_TYPES, GIT_CHECKOUT, Resource, require_type
from patchyard.engine.catalogue import Catalogue


@click.group(cls=Group, epilog="Example: agents resource add git-checkout shop --path ~/src/shop")
def resource() -> None:
    """What projects may use: checkouts and folders."""


@resource.command(epilog="Example: agents resource add directory data --path ./data")
@click.argument("type_name", metavar="TYPE")
@click.argument("name")
@click.option("--path", default=".", show_default=True, help="Where it lies.")
@click.option("--image", default="", help="Of a container-instance, as its engine names it.")
@click.option("--execution-environment", "kind", help="Where work on it happens by default.")
@format_option
def add(
    type_name: str, name: str, path: str, image: str, kind: str | None, output_format: str
) -> None:
    """Add a resource of TYPE (container-instance, directory, git-checkout) under NAME."""

    async def job(catalogue: Catalogue) -> Outcome:
        made = await catalogue.add_resource(
            Resource(
                name=name,
                type=require_type(type_name),
                location=_location(type_name, path),
                image=_image(type_name, image),
                execution_environment=parse_kind(kind) if kind else None,
            )
        )
        data = _data(made)
        return Outcome(data=data, text=f"added\n{fields(data)}")

    with_catalogue("resource add", output_format, job)


def _location(type_name: str, path: str) -> str:
    if type_name == GIT_CHECKOUT:
        return checkout_of(path)
    if type_name in CONTAINER_TYPES:
        return ""
    found = Path(os.path.realpath(Path(path).expanduser()))
    if not found.is_dir():
        raise UsageError(f"there is no folder {path}")
    return str(found)


def _image(type_name: str, image: str) -> str:
    if image and type_name not in CONTAINER_TYPES:
        raise UsageError(f"--image is not for {type_name}", hint="leave it out")
    if type_name in CONTAINER_TYPES and not image:
        raise UsageError(f"a {type_name} needs an image", hint="say `--image NAME`")
    return image


def _data(found: Resource) -> dict[str, Any]:
    return {
        "name": found.name,
        "type": found.type,
        "location": found.location,
        "image": found.image,
        "execution_environment": str(found.execution_environment or "host"),
        "execution_environment_set": found.execution_environment is not None,
    }


@resource.command("list", epilog="Example: agents resource list --format json")
@format_option
def list_resources(output_format: str) -> None:
    """List the resources."""

    async def job(catalogue: Catalogue) -> Outcome:
        found = [_data(r) for _, r in sorted((await catalogue.holdings()).resources.items())]
        rows = [[r["name"], r["type"], r["location"]] for r in found]
        return Outcome(data={"resources": found}, text=table(rows, empty="no resources"))

    with_catalogue("resource list", output_format, job)


@resource.command(epilog="Example: agents resource show data")
@click.argument("name")
@format_option
def show(name: str, output_format: str) -> None:
    """Show a resource."""

    async def job(catalogue: Catalogue) -> Outcome:
        data = _data((await catalogue.holdings()).resource(name))
        return Outcome(data=data, text=fields(data))

    with_catalogue("resource show", output_format, job)


@resource.command(epilog="Example: agents resource remove data")
@click.argument("name")
@format_option
def remove(name: str, output_format: str) -> None:
    """Take a resource away; what lies there stays."""

    async def job(catalogue: Catalogue) -> Outcome:
        await catalogue.remove_resource(name)
        return Outcome(data={"name": name}, text=f"removed {name}")

    with_catalogue("resource remove", output_format, job)


__all__ = ["resource"]
