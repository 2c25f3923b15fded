"""The names of approvals and tools in settings: what is misspelt would steer nothing."""

from collections.abc import Iterable

from patchyard.configuration import Configuration
from patchyard.domain.errors import UnknownName
from patchyard.domain.safety import APPROVALS


def require_names(settings: Configuration, workspace: str) -> None:
    """Raise UnknownName for a setting that names an approval or a tool that there is not."""
    required_approvals(settings.value("approvals") or (), workspace)
    require_tools(settings.value("tools") or {}, workspace)


def require_tools(names: Iterable[str], workspace: str) -> None:
    """Raise UnknownName for a name of no tool: what it was to steer would go on unsteered."""
    from patchyard.tools.toolset import toolset  # noqa: PLC0415 - not for `--help`

    known = toolset(workspace) if names else ()
    for name in names:
        if name not in known:
            raise UnknownName.among("tool", name, known)


def required_approvals(names: tuple[str, ...], workspace: str) -> tuple[str, ...]:
    """Return the phases, categories and tools to be asked for. Raises UnknownName."""
    from patchyard.tools.toolset import toolset  # noqa: PLC0415 - not for `--help`

    known = {*APPROVALS, *toolset(workspace)} if names else set()
    for name in names:
        if name not in known:
            raise UnknownName.among("approval", name, known)
    return names


__all__ = ["require_names", "require_tools", "required_approvals"]
