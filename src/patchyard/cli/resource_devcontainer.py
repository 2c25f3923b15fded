"""`agents resource stop|rebuild`: devcontainers that are ended and built anew."""

import click

from patchyard.cli.opening import engine_opened
from patchyard.cli.outcome import Outcome, carry_out, counted, format_option
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import UsageError
from patchyard.domain.resource import DEVCONTAINER_INSTANCE, Standing
from patchyard.engine import activation
from patchyard.engine.catalogue import Catalogue
from patchyard.engine.equipment import Equipment


async def _require_instance(equipment: Equipment, name: str) -> None:
    found = (await Catalogue(equipment.store.journal, equipment.clock).holdings()).resource(name)
    if found.type != DEVCONTAINER_INSTANCE:
        raise UsageError(
            f"{name} is a {found.type}", hint="only a devcontainer-instance is built and stopped"
        )


@click.command(epilog="Example: agents resource stop shop-devcontainer")
@click.argument("name")
@format_option
def stop(name: str, output_format: str) -> None:
    """End every environment of a devcontainer; plans at work there go on in a new one."""

    async def work() -> Outcome:
        async with engine_opened() as equipment:
            await _require_instance(equipment, name)
            ended = list(await activation.stop(equipment, name))
        data = {"name": name, "state": str(Standing.STOPPED), "ended": ended}
        return Outcome(data=data, text=f"stopped {name}: {len(ended)} ended")

    carry_out("resource stop", output_format, work)


@click.command(epilog="Example: agents resource rebuild shop-devcontainer")
@click.argument("name")
@format_option
def rebuild(name: str, output_format: str) -> None:
    """Stop a devcontainer and forget what was built: the next use builds it anew."""

    async def work() -> Outcome:
        async with engine_opened() as equipment:
            await _require_instance(equipment, name)
            equipment.environment(ExecutionEnvironment.DEVCONTAINER)
            images = list(await activation.rebuild(equipment, name))
        data = {"name": name, "state": str(Standing.STOPPED), "images": images}
        text = (
            f"{name} is built anew when it is next used; {counted(len(images), 'image')} forgotten"
        )
        return Outcome(data=data, text=text)

    carry_out("resource rebuild", output_format, work)


__all__ = ["rebuild", "stop"]
