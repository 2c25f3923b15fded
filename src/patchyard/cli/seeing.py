"""What a repository's settings come to, for the commands that show, check and trust them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.glimpse import glimpse
from patchyard.configuration import Configuration, RepositoryFiles, configure, repository_files
from patchyard.domain.project import Project
from patchyard.domain.resource import Resource


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A repository's files and all settings in force there."""

    files: RepositoryFiles
    configuration: Configuration


def repository_settings(
    top: str,
    *,
    is_trusted: bool,
    project: Project | None = None,
    linked: Sequence[Resource] = (),
) -> Seen:
    """Read the settings of the checkout at `top`, whose project has `linked` resources.

    Raises UsageError with file, line, column.
    """
    files = repository_files(glimpse(Path(top), None))
    found = configure(
        os.environ, project=project, repository=files, is_trusted=is_trusted, linked=linked
    )
    return Seen(files=files, configuration=found)


__all__ = ["Seen", "repository_settings"]
