"""Where a plan's work happens, as all who may say it say: the levels of the chain, filled in."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from patchyard.clients.glimpse import Glimpse
from patchyard.configuration import REPOSITORY_FILE, Configuration, user_file
from patchyard.domain.action import Action
from patchyard.domain.effective import environment_limits_in
from patchyard.domain.environment import ExecutionEnvironment, Priority, place_named
from patchyard.domain.errors import UnknownName
from patchyard.domain.holdings import Holdings
from patchyard.domain.languages import Spoken, image_for, language_of
from patchyard.domain.plan import PlanSpec
from patchyard.domain.preference import ToolSetting, environments_of, preferences_of
from patchyard.domain.project import Project
from patchyard.domain.resource import CONTAINER_INSTANCE, Resource
from patchyard.domain.routing import sites_of
from patchyard.intake_names import mode_of, no_mode, require_tools

RUN_DEFAULT = "run-default"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What was typed of it."""

    place: str | None  # a kind or a linked resource; None: not said
    priority: Priority | None
    has_run_default: bool  # `process` where nothing is set at any level (F2.16)
    action: Action | None
    discovered: Resource | None  # the nearest devcontainer of the checkout
    own: Resource | None = None  # a place of this plan alone, which `place` names


def placed(
    spec: PlanSpec,
    wish: Wish,
    settings: Configuration,
    environ: Mapping[str, str],
    *,
    project: Project | None,
    holdings: Holdings,
) -> PlanSpec:
    """Return `spec` with the levels of the chain (A7).

    Raises ContainerUnavailableError (A14), UsageError or UnknownName for a place that there is not.
    """
    linked = project.linked(holdings.resources) if project else ()
    if wish.own is not None:
        linked = (wish.own, *(each for each in linked if each.name != wish.own.name))
    said = settings.values["execution_environment"]
    is_default = said.origin in {REPOSITORY_FILE, str(user_file(environ))}
    resource = next((r.execution_environment for r in linked if r.execution_environment), None)
    configured = mode_of(environ) or (said.value if is_default else None)
    plan = None if is_default else said.value
    source = said.origin
    if wish.place:
        plan, source = place_named(wish.place), "--in" if wish.has_run_default else "option"
    own = project.execution_environment if project else None
    if wish.has_run_default and not (plan or own or resource or configured):
        plan, source = str(ExecutionEnvironment.PROCESS), RUN_DEFAULT
    filled = replace(
        spec,
        project=project.name if project else None,
        environment=plan,
        environment_source=source if plan else "plan",
        environment_priority=wish.priority,
        project_environment=own,
        project_priority=settings.value("execution_env_priority"),
        has_discovery=bool(settings.value("execution_env_discovery")),
        resource_environment=resource,
        default_environment=configured or str(ExecutionEnvironment.HOST),
        resources=tuple(each for each in linked if each.site is not None),
        discovered=wish.discovered,
        environment_limits=environment_limits_in([one for one in settings.layers if one.is_typed]),
        usual_limits=environment_limits_in([one for one in settings.layers if not one.is_typed]),
        **_tools(settings.value("tools") or {}, wish.action),
    )
    require_tools({*filled.tool_environments, *filled.tool_preferences}, spec.repository)
    try:
        sites_of(filled)
    except UnknownName as error:
        name = str(error.details["name"])
        refused = holdings.no_place(name, project)
        if asker := _asker(filled, linked, name):
            refused.message += f"; {asker}"
        elif name != filled.environment and name == mode_of(environ):
            refused = no_mode(name)
        raise refused from error
    return filled


def _asker(spec: PlanSpec, linked: Sequence[Resource], name: str) -> str:
    """Say what is set to send work to `name`; empty: it was typed, or AGENT_MODE says it."""
    if spec.environment == name:
        return ""
    if spec.project_environment == name:
        return f"the project {spec.project} is set to work there"
    asking = (each.name for each in linked if each.execution_environment == name)
    found = next(asking, None)
    if found:
        return f"the linked resource {found} asks for it: {resource_cure(found)}"
    return ""


def resource_cure(name: str) -> str:
    """Return how a resource is given another place, or none."""
    return f"`agents resource remove {name}`, then add it with another --execution-environment"


def with_image(
    spec: PlanSpec, settings: Configuration, sight: Glimpse | None
) -> tuple[PlanSpec, tuple[str, ...]]:
    """Fill in the image of linked containers that name none, and what to say of it (F2.17)."""
    containers = [each for each in spec.resources if each.type == CONTAINER_INSTANCE]
    unnamed = [each.name for each in containers if not each.image]
    if not unnamed:
        return spec, ()
    image, why = image_by_language(settings, sight)
    note = (
        f"image of {', '.join(unnamed)}: {image} ({why}); `--image` of the resource names another"
    )
    used = {site.resource for site in sites_of(spec)}
    return replace(spec, image=image), (note,) if used & set(unnamed) else ()


def image_by_language(settings: Configuration, sight: Glimpse | None) -> tuple[str, str]:
    """Return the image of a container that names none, and why it is that one (F2.17)."""
    spoken = language_of(sight.names(), sight.names) if sight else Spoken()
    image = image_for(spoken, settings.value("images") or {})
    return image, f"by {spoken.because}" if spoken.because else "no language was found"


def _tools(said: Mapping[str, ToolSetting], action: Action | None) -> dict[str, Any]:
    """Return the tool level: of each tool, the action's say before that of the settings."""
    own: Collection[str] = {*action.tools, *action.preferences} if action else ()
    rest = {name: setting for name, setting in said.items() if name not in own}
    return {
        "tool_environments": environments_of(rest) | dict(action.tools if action else {}),
        "tool_preferences": preferences_of(rest) | dict(action.preferences if action else {}),
    }


__all__ = ["RUN_DEFAULT", "Wish", "image_by_language", "placed", "resource_cure", "with_image"]
