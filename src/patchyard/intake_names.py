"""Names of agents, approvals, tools, places in settings: what is misspelt would steer nothing."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from patchyard.configuration import Configuration
from patchyard.domain.environment import HERE, kind_of_word, no_such_kind, place_named
from patchyard.domain.errors import UnknownName
from patchyard.domain.faults import Fault, Place
from patchyard.domain.holdings import Holdings
from patchyard.domain.mcp import PREFIX, family_of
from patchyard.domain.project import Project
from patchyard.domain.resource import names_of
from patchyard.domain.safety import APPROVALS
from patchyard.domain.settings import Settings
from patchyard.domain.tooling import ASK_ROLE
from patchyard.registry import ACTORS

MODE = "AGENT_MODE"


def require_names(
    settings: Configuration,
    workspace: str,
    *,
    holdings: Holdings,
    project: Project | None,
    roles: Collection[str],
) -> None:
    """Raise UsageError, with the place, for a setting that names what there is not.

    Looked at are all places, as for any other mistake: one that another place wins over too.
    """
    servers = {PREFIX + name for name in settings.value("mcp_servers") or ()}
    for layer in settings.layers:
        for what, place, name in _named(layer.settings):
            known = roles if what == "role" else {*_known(what, workspace), *_also(what, servers)}
            if name not in known and family_of(name) not in known:
                error = UnknownName.among(what, name, known)
                raise layer.refused(Fault.at(place, error)) from error
    require_places(settings, holdings=holdings, project=project)


def require_places(settings: Configuration, *, holdings: Holdings, project: Project | None) -> None:
    """Raise UsageError, with the place, for a setting that sends work to where there is nothing.

    Work can be sent to the resources that `project` is linked to.
    """
    linked = names_of(project.linked(holdings.resources)) if project else ()
    for layer in settings.layers:
        for place, name in _placed(layer.settings):
            if kind_of_word(name) not in HERE and name not in linked:
                refusal = holdings.no_place(name, project)
                raise layer.refused(Fault.at(place, refusal)) from refusal


def mode_of(environ: Mapping[str, str]) -> str | None:
    """Return the place that AGENT_MODE names, the chain's last level; None where it is not set.

    Raises UnknownName, with the variable's name, for what is no kind.
    """
    said = environ.get(MODE)
    if not said:
        return None
    if kind_of_word(said) is None:
        raise no_mode(said)
    return place_named(said)


def require_mode(environ: Mapping[str, str]) -> None:
    """Raise UnknownName, with the variable's name, unless this version can start AGENT_MODE."""
    said = environ.get(MODE)
    if said and kind_of_word(said) not in HERE:
        raise no_mode(said)


def no_mode(said: str) -> UnknownName:
    """Return the refusal of an AGENT_MODE that this version cannot start."""
    refusal = no_such_kind(said)
    hint = (
        f"known: {', '.join(map(str, HERE))} (container, devcontainer, ssh and vm need a linked"
        f" resource); set {MODE} to one of them, or unset it"
    )
    return UnknownName(f"{MODE}: {refusal.message}", hint=hint, details=refusal.details)


def require_tools(names: Iterable[str], workspace: str) -> None:
    """Raise UnknownName for a name of no tool: what it was to steer would go on unsteered."""
    for name in names:
        known = _known("tool", workspace)
        if name not in known and not name.startswith(PREFIX):
            raise UnknownName.among("tool", name, known)


def _named(said: Settings) -> Iterator[tuple[str, Place, str]]:
    if said.agent:
        yield "agent", ("agent",), said.agent
    if said.role:
        yield "role", ("role",), said.role
    for number, name in enumerate(said.roles or ()):
        yield "role", ("roles", number), name
    for number, name in enumerate(said.approvals or ()):
        yield "approval", ("approvals", number), name
    for name in said.tools or ():
        yield "tool", ("tools", name), name


def _placed(said: Settings) -> Iterator[tuple[Place, str]]:
    """Return the names of environments, each with its place."""
    if said.execution_environment is not None:
        yield ("execution_environment",), said.execution_environment
    for name, tool in (said.tools or {}).items():
        if tool.execution_environment is not None:
            yield ("tools", name, "execution_environment"), tool.execution_environment
        if tool.preference.target_resource:
            yield ("tools", name, "target_resource"), tool.preference.target_resource


def _also(what: str, servers: Collection[str]) -> Collection[str]:
    return servers if what in {"approval", "tool"} else ()


def _known(what: str, workspace: str) -> Collection[str]:
    if what == "agent":
        return ACTORS
    from patchyard.tools.toolset import toolset  # noqa: PLC0415 - not for `--help`

    return {*toolset(workspace), *((*APPROVALS, ASK_ROLE) if what == "approval" else ())}


__all__ = [
    "MODE",
    "mode_of",
    "no_mode",
    "require_mode",
    "require_names",
    "require_places",
    "require_tools",
]
