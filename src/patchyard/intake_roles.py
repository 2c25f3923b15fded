"""Where the user's own roles lie, and what a role is held to when a plan is made."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from patchyard.configuration import Configuration, user_file
from patchyard.domain.effective import Setting
from patchyard.domain.errors import UsageError
from patchyard.domain.faults import Fault
from patchyard.domain.gate_settings import with_own
from patchyard.domain.mcp import PREFIX
from patchyard.domain.plan import PlanSpec
from patchyard.domain.role import Output, Role
from patchyard.domain.routing import sites_of
from patchyard.engine.removal_proof import UNNOTICED, commands_of
from patchyard.roles.library import FOLDER, role_named


def role_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's own roles, beside `config.yaml`."""
    return user_file(environ).with_name(FOLDER)


def tool_names() -> Collection[str]:
    """Return the tools that a policy can name."""
    from patchyard.tools.toolset import NINE  # noqa: PLC0415 - not for `--help`

    return NINE


def cast(
    settings: Configuration,
    of_action: str,
    environ: Mapping[str, str],
    *,
    own: Role | None = None,
) -> tuple[Role, tuple[Role, ...]]:
    """Return who works on a plan, and who looks at the result. Raises UsageError.

    A role that was typed, or that is the plan's own, works alone; else the list `roles` goes
    before `role`.
    """
    if own is not None:
        return own, ()
    said, listed = settings.values["role"], settings.value("roles") or ()
    folder = role_folder(environ)
    if is_typed(said) and said.value:
        listed = ()
    names = listed or (said.value or of_action or "developer",)
    roles = [role_named(name, folder, tools=tool_names()) for name in names]
    try:
        _require_team(roles)
    except Fault as fault:
        raise settings.refused("roles", fault) from fault
    return roles[0], tuple(roles[1:])


def _require_team(roles: Sequence[Role]) -> None:
    """Raise Fault, with the place in `roles`, for a list that is none of a team."""
    for number, role in enumerate(roles):
        here = ("roles", number)
        if role.name in [each.name for each in roles[:number]]:
            raise Fault(here, f"{role.name} stands twice", hint="each looks once a round")
        if number and role.output not in {Output.TESTS, Output.FINDINGS}:
            raise Fault(
                here,
                f"{role.name} gives {role.output} and cannot look at another's result",
                hint="after the first come roles that give `tests` or `findings`",
            )
    if len(roles) > 1 and roles[0].output != Output.CHANGES:
        raise Fault(
            ("roles", 0),
            f"{roles[0].name} gives {roles[0].output}, so that others have nothing to look at",
            hint="the first is one that gives `changes`, such as developer",
        )


def with_askable(spec: PlanSpec, environ: Mapping[str, str]) -> PlanSpec:
    """Let a plan hold the roles that its own may ask: those that can work where it does.

    Raises UsageError for one that cannot be read.
    """
    folder = role_folder(environ)
    if spec.agent != "model" or not spec.charter.max_asks:
        return spec
    asked = [role_named(name, folder, tools=tool_names()) for name in spec.charter.may_ask]
    return replace(spec, askable=tuple(each for each in asked if not _amiss(each, spec)))


def _amiss(role: Role, spec: PlanSpec) -> str:
    """Return the first kind that a plan can reach and the role does not work in."""
    kinds = (str(site.kind) for site in sites_of(spec))
    return next((k for k in kinds if role.environments and k not in role.environments), "")


def lacking_servers(spec: PlanSpec) -> tuple[str, ...]:
    """Return a sentence for each tool that a role may use and no server there is offers."""
    known = [server.name for server in spec.mcp_servers]
    there = f"there is {', '.join(known)}" if known else "`mcp_servers` names none"
    return tuple(
        f"the role {each.name} may use {tool}, and no MCP server is called {server}: {there}"
        for each in (spec.charter, *spec.team)
        for tool in each.tools
        if tool.startswith(PREFIX)
        and (server := tool.removeprefix(PREFIX).partition("__")[0]) not in known
    )


def is_typed(setting: Setting) -> bool:
    """Whether somebody said it for this very command."""
    return setting.origin == "option" or setting.origin.startswith("PATCHYARD_")


def require_role_fits(spec: PlanSpec) -> None:
    """Raise UsageError where the plan asks of its role what that does not do."""
    charter = spec.charter
    if not charter.is_writing and spec.apply_to != "none":
        raise UsageError(
            f"the role {charter.name} changes nothing, so that there is nothing to apply",
            hint="leave --apply out, or take a role that writes",
        )
    if spec.agent != "model" and not charter.is_writing:
        raise UsageError(
            f"the role {charter.name} needs a model, and the agent is {spec.agent}",
            hint="leave --agent out",
        )
    if any(each.is_writing for each in spec.team) and not charter.may_use("write_file"):
        raise UsageError(
            f"`roles`: {charter.name} may not use write_file, by which a tester's files come in",
            hint="let its policy name write_file, or leave the tester out",
        )
    for each in (charter, *spec.team):
        kind = _amiss(each, spec)
        if kind:
            raise UsageError(
                f"the role {each.name} does not work in {kind}",
                hint=f"it works in {', '.join(each.environments)}: name one with --in",
            )
    for each in (charter, *spec.team):
        own = replace(spec, gates=with_own(spec.gates, each.gates))
        if each.output == Output.TESTS and not commands_of(own):
            raise UsageError(UNNOTICED, hint="name one with --validate COMMAND")


__all__ = [
    "cast",
    "is_typed",
    "lacking_servers",
    "require_role_fits",
    "role_folder",
    "tool_names",
    "with_askable",
]
