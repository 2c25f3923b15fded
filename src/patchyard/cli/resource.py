"""`agents resource`: what projects may use."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from patchyard.cli.cataloguing import (
    checkout_of,
    fields,
    filled,
    still_named,
    table,
    with_catalogue,
)
from patchyard.cli.main import LazyGroup
from patchyard.cli.outcome import Outcome, format_option
from patchyard.cli.resource_discovery import config_in, discover, standing_data
from patchyard.domain.address import Address
from patchyard.domain.environment import ExecutionEnvironment, place_named
from patchyard.domain.environment_limits import (
    NAMES,
    EnvironmentLimits,
    environment_limits_of,
    given,
    shown,
)
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.faults import Fault, unplaced
from patchyard.domain.holdings import Holdings
from patchyard.domain.resource import (
    CARRIED,
    CONTAINER_INSTANCE,
    DEVCONTAINER_INSTANCE,
    GIT_CHECKOUT,
    KINDS,
    LOCALHOST,
    SSH_HOST,
    VM_IMAGE,
    Resource,
    require_type,
)
from patchyard.engine.catalogue import Catalogue

_DEVCONTAINER = "patchyard.cli.resource_devcontainer"

COMMANDS = {
    "rebuild": (f"{_DEVCONTAINER}:rebuild", "Build a devcontainer anew when it is next used."),
    "stop": (f"{_DEVCONTAINER}:stop", "End every environment of a devcontainer."),
}


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    epilog="Example: agents resource add git-checkout shop --path ~/src/shop",
)
def resource() -> None:
    """What projects may use: checkouts and folders, containers and hosts."""


LIMITS_HELP = {
    "connections": "Connections through the network gateways at once.",
    "cpu_time": "Processor time of one command: 60s, 10m.",
    "cpus": "Processors at once, such as 1.5.",
    "disk": "How much the workspace may grow: 2G.",
    "file_size": "Of one file: 500M.",
    "memory": "Of all together: 2G.",
    "network": "Bytes through the network gateways: 1G.",
    "open_files": "Of one process.",
    "output": "Kept of one call: 1M.",
    "processes": "At once.",
    "temporary": "Of each folder in memory, such as /tmp: 500M.",
    "wall": "Of one command: 90s, 30m.",
}


def _limit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each limit of what runs in a resource."""
    for name in reversed(NAMES):
        option = f"--{name.replace('_', '-')}"
        command = click.option(option, name, metavar="LIMIT", help=LIMITS_HELP[name])(command)
    return command


@resource.command(epilog="Example: agents resource add container-instance box --image py3 --cpus 2")
@click.argument("type_name", metavar="TYPE")
@click.argument("name")
@click.option("--path", default=".", show_default=True, help="Where it lies.")
@click.option(
    "--image",
    default="",
    help="Of a container-instance, as its engine names it; left out: by the language."
    " Of a vm-image: a folder with a kernel, packages or root.tar; left out: this machine's own."
    " Of an ssh-host that carries containers, as the engine there names it.",
)
@click.option(
    "--runtime",
    default="",
    help="Of a container-instance, as its engine knows it, such as runsc for gVisor; left out: the"
    " engine's default.",
)
@click.option(
    "--host",
    "address",
    default="",
    metavar="[USER@]HOST[:PORT]",
    help="Of an ssh-host, as your OpenSSH configuration names it.",
)
@click.option(
    "--transport",
    type=click.Choice(["ssh"]),
    default=None,
    help="Of an ssh-host: over SSH even where the host is localhost.",
)
@click.option(
    "--carries",
    type=click.Choice([str(kind) for kind in CARRIED]),
    default=None,
    help="Of an ssh-host: run calls there in a sandbox, or in a container of --image.",
)
@click.option("--execution-environment", "kind", help="Where work on it happens by default.")
@_limit_options
@format_option
def add(name: str, kind: str | None, output_format: str, **asked: Any) -> None:
    """Add a resource of TYPE under NAME.

    TYPE is one of container-instance, devcontainer-instance, directory, git-checkout, ssh-host,
    vm-image. The devcontainers of a checkout are added with it, and change nothing of where work
    happens.
    """
    type_name, path = asked["type_name"], asked["path"]

    async def job(catalogue: Catalogue) -> Outcome:
        made = await catalogue.add_resource(
            Resource(
                name=name,
                type=require_type(type_name),
                location=_location(type_name, path),
                image=_image(type_name, asked["image"], asked["carries"]),
                runtime=await _runtime(type_name, asked["runtime"]),
                config=config_in(checkout_of(path)) if type_name == DEVCONTAINER_INSTANCE else "",
                address=_address(type_name, asked["address"], asked["transport"]),
                transport=asked["transport"] or "",
                carries=_carried(type_name, asked),
                execution_environment=place_named(kind) if kind else None,
                limits=_limits(type_name, asked),
            )
        )
        found = await discover(catalogue, made) if type_name == GIT_CHECKOUT else ()
        data = _data(made, await catalogue.holdings())
        data |= {"discovered": [each.name for each in found]} if found else {}
        return Outcome(data=data, text=f"added\n{fields(_shown(made, data))}")

    with_catalogue("resource add", output_format, job)


def _location(type_name: str, path: str) -> str:
    if type_name in {GIT_CHECKOUT, DEVCONTAINER_INSTANCE}:
        return checkout_of(path)
    if type_name in KINDS:
        return ""
    return _folder(path)


def _folder(path: str) -> str:
    found = Path(os.path.realpath(Path(path).expanduser()))
    if not found.is_dir():
        raise UsageError(f"there is no folder {path}", hint="make it, or name another")
    return str(found)


def _address(type_name: str, address: str, transport: str | None) -> str:
    if type_name != SSH_HOST and (address or transport):
        given = "--host" if address else "--transport"
        raise UsageError(f"{given} is not for {type_name}", hint="leave it out")
    if type_name == SSH_HOST:
        if not address:
            raise UsageError("an ssh-host needs a host", hint="say `--host [USER@]HOST[:PORT]`")
        Address.typed(address)
    return address


def _carried(type_name: str, asked: Mapping[str, Any]) -> ExecutionEnvironment | None:
    carries = asked["carries"]
    if carries is None:
        return None
    if type_name != SSH_HOST:
        raise UsageError(f"--carries is not for {type_name}", hint="leave it out")
    if Address.parse(asked["address"]).host == LOCALHOST and not asked["transport"]:
        raise UsageError(
            f"{LOCALHOST} is this machine itself, which carries nothing",
            hint=f"take `--in {carries}`, or say `--transport ssh`",
        )
    return ExecutionEnvironment(carries)


def _image(type_name: str, image: str, carries: str | None) -> str:
    if image and type_name == VM_IMAGE:
        return _folder(image)
    if type_name == SSH_HOST and carries == ExecutionEnvironment.CONTAINER:
        if not image:
            raise UsageError("containers need an image", hint="say `--image IMAGE`")
        return image
    if image and type_name != CONTAINER_INSTANCE:
        raise UsageError(f"--image is not for {type_name}", hint="leave it out")
    return image


async def _runtime(type_name: str, runtime: str) -> str:
    """Return a runtime that the container engine knows. Raises UnknownName, UsageError.

    Raises EnvironmentUnavailable where no engine answers.
    """
    if not runtime:
        return ""
    if type_name != CONTAINER_INSTANCE:
        raise UsageError(f"--runtime is not for {type_name}", hint="leave it out")
    from patchyard.clients.docker import (  # noqa: PLC0415 - heavy, and only for --runtime
        MORE_RUNTIMES,
        connected,
        engine_socket,
    )

    async with connected(engine_socket(os.environ)) as engine:
        known = await engine.runtimes()
    if runtime not in known:
        unknown = UnknownName.among("container runtime", runtime, known)
        raise UnknownName(
            unknown.message, hint=f"{unknown.hint}; {MORE_RUNTIMES}", details=unknown.details
        )
    return runtime


def _limits(type_name: str, asked: Mapping[str, Any]) -> EnvironmentLimits:
    body = {name: asked[name] for name in NAMES if asked[name] is not None}
    if body and type_name not in KINDS:
        option = next(iter(body)).replace("_", "-")
        raise UsageError(f"--{option} is not for {type_name}, in which nothing runs")
    try:
        return environment_limits_of(body, ())
    except Fault as fault:
        name = str(fault.place[0]).replace("_", "-")
        raise unplaced(fault, f"--{name}: {fault.problem}") from fault


def _data(found: Resource, holdings: Holdings) -> dict[str, Any]:
    return {
        "name": found.name,
        "type": found.type,
        "location": found.location,
        "image": found.image,
        "runtime": found.runtime,
        "address": found.address,
        "transport": found.transport,
        "carries": str(found.carries or ""),
        "execution_environment": found.execution_environment or "host",
        "execution_environment_set": found.execution_environment is not None,
        "limits": given(found.limits),
        **standing_data(found, holdings),
    }


def _shown(found: Resource, data: Mapping[str, Any]) -> dict[str, Any]:
    """What a person sees of it: nothing that is empty, and no flag for programs."""
    kind = data["execution_environment"]
    said = kind if found.execution_environment else f"{kind} (not set)"
    if found.site is not None and not found.execution_environment:
        said = ""  # calls that are sent to it run in itself
    rows = {**data, "limits": shown(found.limits), "execution_environment": said}
    return filled({key: value for key, value in rows.items() if not key.endswith("_set")})


@resource.command("list", epilog="Example: agents resource list --format json")
@format_option
def list_resources(output_format: str) -> None:
    """List the resources."""

    async def job(catalogue: Catalogue) -> Outcome:
        holdings = await catalogue.holdings()
        found = [_data(r, holdings) for _, r in sorted(holdings.resources.items())]
        rows = [[r["name"], r["type"], r["location"] or r["address"]] for r in found]
        return Outcome(data={"resources": found}, text=table(rows, empty="no resources"))

    with_catalogue("resource list", output_format, job)


@resource.command(epilog="Example: agents resource show data")
@click.argument("name")
@format_option
def show(name: str, output_format: str) -> None:
    """Show a resource."""

    async def job(catalogue: Catalogue) -> Outcome:
        holdings = await catalogue.holdings()
        found = holdings.resource(name)
        data = _data(found, holdings)
        return Outcome(data=data, text=fields(_shown(found, data)))

    with_catalogue("resource show", output_format, job)


@resource.command(
    short_help="Take a resource away; what lies there stays.",
    epilog="Example: agents resource remove data",
)
@click.argument("name")
@format_option
def remove(name: str, output_format: str) -> None:
    """Take a resource away, from projects it is linked to as well; what lies there stays.

    The devcontainers that were discovered in a checkout go with it; adding it finds them again.
    Plans that were made before keep it.
    """

    async def job(catalogue: Catalogue) -> Outcome:
        from patchyard.intake_places import resource_cure  # noqa: PLC0415 - only for this

        gone = await catalogue.remove_resource(name)
        names = {each: [project.name for project in linked] for each, linked in gone.items()}
        lines = []
        for each, linked in gone.items():
            why = f", which was discovered in {name}" if each != name else ""
            unlinked = f", unlinked from {', '.join(names[each])}" if linked else ""
            lines.append(f"removed {each}{why}{unlinked}")
            lines += [line for project in linked for line in still_named(project, each)]
        own = names.pop(name)
        left = (await catalogue.holdings()).resources.values()
        asking = [each for each in left if each.execution_environment in gone]
        lines += [f"{e.name} still sends work there: {resource_cure(e.name)}" for e in asking]
        data = {"name": name, "unlinked": own, "discovered": names}
        data |= {"named_by": [each.name for each in asking]}
        return Outcome(data=data, text="\n".join(lines))

    with_catalogue("resource remove", output_format, job)


__all__ = ["resource"]
