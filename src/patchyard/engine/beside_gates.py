"""What else runs, or is loaded, where a gate runs: commands of the start, variables, setup."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchyard.domain.changeset import Base
from patchyard.domain.devcontainer import Build
from patchyard.domain.gate_words import text_of_variable
from patchyard.engine.activation import commands_of
from patchyard.engine.equipment import Equipment
from patchyard.engine.leading import LARGEST
from patchyard.engine.ledger import Ledger
from patchyard.engine.sites import NO_DEVCONTAINER, general_site

_ENV = re.compile(r"^[ \t]*ENV[ \t]+(.*)$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Texts that name files as the commands of gates do."""

    always: tuple[str, ...] = ()  # of each environment's start, and of its variables
    setup: tuple[str, ...] = ()  # run on a result whose lock files or manifests changed
    places: tuple[str, ...] = ()  # absolute paths at which the workspace is seen

    def from_top(self, text: str) -> str:
        """Return a text whose absolute paths into the workspace are paths from its top."""
        for place in self.places:
            text = text.replace(f"{place}/", "")
        return text


async def beside_gates(equipment: Equipment, ledger: Ledger, base: Base) -> Beside:
    """Return what counts beside the gates of a plan.

    Raises EnvironmentUnavailable where a devcontainer's image cannot be had.
    """
    spec = ledger.state.known
    own = spec.devcontainers.get(general_site(spec).resource, NO_DEVCONTAINER)
    variables = {**own.variables, **spec.variables}
    said = [text_of_variable(name, value) for name, value in variables.items()]
    if own.build is not None:
        said += await _of_image(equipment, base, own.build)
    commands = await commands_of(equipment, ledger)
    places = (spec.repository, *([own.folder] if own.folder else []))
    return Beside(always=(*commands.starts, *said), setup=tuple(commands.setup), places=places)


async def _of_image(equipment: Equipment, base: Base, build: Build) -> Sequence[str]:
    """Return the variables that a Dockerfile of the base sets."""
    content = await equipment.trees.file(base, build.dockerfile, largest=LARGEST)
    text = (content or b"").decode("utf-8", "replace").replace("\\\n", " ")
    return [text_of_variable(*pair) for line in _ENV.findall(text) for pair in _pairs(line)]


def _pairs(line: str) -> Iterator[tuple[str, str]]:
    """Yield names with values: `NAME=VALUE …`, or the older `NAME VALUE`."""
    words = re.findall(r"""(\w+)=("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"']*)""", line)
    if words:
        yield from ((name, value.strip("\"'")) for name, value in words)
        return
    name, _, value = line.partition(" ")
    yield name, value


__all__ = ["Beside", "beside_gates"]
