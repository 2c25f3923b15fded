"""Where the user's own roles lie, and what a role is held to when a plan is made."""

from collections.abc import Collection, Mapping
from pathlib import Path

from patchyard.configuration import user_file
from patchyard.domain.errors import UsageError
from patchyard.domain.plan import PlanSpec
from patchyard.domain.routing import sites_of
from patchyard.roles.library import FOLDER


def role_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's own roles, beside `config.yaml`."""
    return user_file(environ).with_name(FOLDER)


def tool_names() -> Collection[str]:
    """Return the tools that a policy can name."""
    from patchyard.tools.toolset import NINE  # noqa: PLC0415 - not for `--help`

    return NINE


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
    if not charter.environments:
        return
    for site in sites_of(spec):
        if str(site.kind) not in charter.environments:
            raise UsageError(
                f"the role {charter.name} does not work in {site.kind}",
                hint=f"it works in {', '.join(charter.environments)}: name one with --in",
            )


__all__ = ["require_role_fits", "role_folder", "tool_names"]
