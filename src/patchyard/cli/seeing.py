"""What settings come to where we are, for the commands that show, check and trust them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchyard.cli.cataloguing import checkout_of
from patchyard.cli.outcome import say_warnings
from patchyard.clients.glimpse import glimpse
from patchyard.configuration import (
    MODELS_FILE,
    Configuration,
    RepositoryFiles,
    configure,
    repository_files,
)
from patchyard.domain.errors import UsageError
from patchyard.domain.holdings import Holdings
from patchyard.domain.project import Project
from patchyard.domain.resource import Resource
from patchyard.domain.trust import Trust, warning
from patchyard.engine.catalogue import Catalogue
from patchyard.storage import open_storage


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A repository's files and all settings in force there."""

    files: RepositoryFiles
    configuration: Configuration


def repository_settings(
    top: str,
    *,
    trust: Trust,
    project: Project | None = None,
    linked: Sequence[Resource] = (),
    files: RepositoryFiles | None = None,
) -> Seen:
    """Return the settings of the checkout at `top`, whose project has `linked` resources.

    `files` are what was read there to decide on `trust`: what is trusted is what counts.
    Raises UsageError with file, line, column.
    """
    files = files or repository_files(glimpse(Path(top), None))
    found = configure(os.environ, project=project, repository=files, trust=trust, linked=linked)
    return Seen(files=files, configuration=found)


@dataclass(frozen=True, kw_only=True)
class SeenHere(Seen):
    """The same of the checkout around this folder, with what is held of it."""

    top: str
    project: Project | None
    holdings: Holdings
    is_trusted: bool


async def settings_here(catalogue: Catalogue) -> SeenHere:
    """Return the settings in force in this folder. Raises UsageError outside of a checkout."""
    holdings = await catalogue.holdings()
    top = checkout_of(".")
    files = repository_files(glimpse(Path(top), None))
    trust = holdings.trust_in(top, files.digest, files.marks)
    project = holdings.project_of(top)
    linked = project.linked(holdings.resources) if project else ()
    seen = repository_settings(top, trust=trust, project=project, linked=linked, files=files)
    return SeenHere(
        files=seen.files,
        configuration=seen.configuration,
        top=top,
        project=project,
        holdings=holdings,
        is_trusted=trust.is_given,
    )


def require_sense(
    settings: Configuration, top: str, *, holdings: Holdings, project: Project | None
) -> None:
    """Raise UsageError, with file and line or the variable, for what plans would be refused for."""
    from patchyard.intake_names import require_mode, require_names  # noqa: PLC0415 - not for all commands
    from patchyard.intake_roles import cast, role_folder  # noqa: PLC0415 - likewise
    from patchyard.roles.library import role_names  # noqa: PLC0415 - likewise

    roles = role_names(role_folder(os.environ))
    require_names(settings, top, holdings=holdings, project=project, roles=roles)
    require_mode(os.environ)
    cast(settings, "", os.environ)  # a list of roles that is no team


async def require_settings_here() -> None:
    """Raise UsageError for settings in force in this folder, in a checkout or not, that are wrong.

    Raises what opening the stores does, after the user's own settings were read.
    """
    configure(os.environ)
    async with open_storage(os.environ) as storage:
        catalogue = Catalogue(storage.journal, storage.clock)
        try:
            checkout_of(".")
        except UsageError:
            found, holdings = configure(os.environ), await catalogue.holdings()
            require_sense(found, str(Path.cwd()), holdings=holdings, project=None)
            return
        seen = await settings_here(catalogue)
    require_sense(seen.configuration, seen.top, holdings=seen.holdings, project=seen.project)


async def models_here() -> str:
    """Return the text of the `models.yaml` of the checkout around this folder; empty where none is.

    One that is not trusted is named and counts as none. Raises UsageError for one that cannot be
    read.
    """
    try:
        top = checkout_of(".")
    except UsageError:
        return ""
    files = repository_files(glimpse(Path(top), None))
    if MODELS_FILE not in files.files:
        return ""
    async with open_storage(os.environ) as storage:
        holdings = await Catalogue(storage.journal, storage.clock).holdings()
    trust = holdings.trust_in(top, files.digest, files.marks)
    if trust.is_given:
        return files.models()
    say_warnings([warning((Path(MODELS_FILE).name,), (), void=trust.void)])
    return ""


async def model_and_role_here() -> tuple[str, str]:
    """Return the model that settings name (empty: none) and the role, of a plan begun here.

    Outside of a checkout they are those of the user. Raises UsageError.
    """
    from patchyard.intake_roles import cast  # noqa: PLC0415 - heavy, and only for this

    try:
        checkout_of(".")
    except UsageError:
        found = configure(os.environ)
    else:
        async with open_storage(os.environ) as storage:
            found = (await settings_here(Catalogue(storage.journal, storage.clock))).configuration
    role, _ = cast(found, "", os.environ)
    return found.value("model") or "", role.name


__all__ = [
    "Seen",
    "SeenHere",
    "model_and_role_here",
    "models_here",
    "repository_settings",
    "require_sense",
    "require_settings_here",
    "settings_here",
]
