"""The names of agents, approvals and tools in settings: what is misspelt would steer nothing."""

from collections.abc import Collection, Iterable, Iterator

from patchyard.configuration import Configuration
from patchyard.domain.errors import UnknownName
from patchyard.domain.faults import Fault, Place
from patchyard.domain.safety import APPROVALS
from patchyard.domain.settings import Settings
from patchyard.registry import ACTORS


def require_names(settings: Configuration, workspace: str) -> None:
    """Raise UsageError, with the place, for a setting that names what there is not.

    Looked at are all places, as for any other mistake: one that another place wins over too.
    """
    for layer in settings.layers:
        for what, place, name in _named(layer.settings):
            known = _known(what, workspace)
            if name not in known:
                error = UnknownName.among(what, name, known)
                raise layer.refused(Fault.at(place, error)) from error


def require_tools(names: Iterable[str], workspace: str) -> None:
    """Raise UnknownName for a name of no tool: what it was to steer would go on unsteered."""
    for name in names:
        known = _known("tool", workspace)
        if name not in known:
            raise UnknownName.among("tool", name, known)


def _named(said: Settings) -> Iterator[tuple[str, Place, str]]:
    if said.agent:
        yield "agent", ("agent",), said.agent
    for number, name in enumerate(said.approvals or ()):
        yield "approval", ("approvals", number), name
    for name in said.tools or ():
        yield "tool", ("tools", name), name


def _known(what: str, workspace: str) -> Collection[str]:
    if what == "agent":
        return ACTORS
    from patchyard.tools.toolset import toolset  # noqa: PLC0415 - not for `--help`

    return {*toolset(workspace), *(APPROVALS if what == "approval" else ())}


__all__ = ["require_names", "require_tools"]
