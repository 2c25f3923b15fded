"""What a repository's settings come to, for the commands that show, check and trust them."""

import os
from dataclasses import dataclass
from pathlib import Path

from patchyard.clients.glimpse import glimpse
from patchyard.configuration import Configuration, RepositoryFiles, configure, repository_files
from patchyard.domain.project import Project


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A repository's files and all settings in force there."""

    files: RepositoryFiles
    configuration: Configuration


def repository_settings(top: str, *, is_trusted: bool, project: Project | None = None) -> Seen:
    """Read the settings of the checkout at `top`. Raises UsageError with file, line, column."""
    files = repository_files(glimpse(Path(top), None))
    found = configure(os.environ, project=project, repository=files, is_trusted=is_trusted)
    return Seen(files=files, configuration=found)


__all__ = ["Seen", "repository_settings"]
