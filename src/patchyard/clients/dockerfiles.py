"""The Dockerfile of a build, read out of the tar of its context as container engines find it."""

import tarfile
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from patchyard.domain.devcontainer import Build
from patchyard.domain.dockerfile import DOCKERFILE_BYTES, LINKS
from patchyard.domain.errors import EnvironmentUnavailable

PREPROCESSED = ".in"  # by cpp(1), which includes files of this machine


def read_dockerfile(archive: Path, build: Build) -> str:
    """Return what a build's Dockerfile says; links are followed within the context.

    Raises EnvironmentUnavailable where an engine could take another file.
    """
    name = place_in(build)
    if name.endswith(PREPROCESSED):
        raise _no_dockerfile(build, f"Podman has files named *{PREPROCESSED} preprocessed first")
    with tarfile.open(archive) as files:
        for _ in range(LINKS):
            try:
                found = files.getmember(name)
            except KeyError as error:
                raise _no_dockerfile(build, f"there is no file {name} in the context") from error
            if not found.issym():
                data = files.extractfile(found)
                if data is None:
                    raise _no_dockerfile(build, f"{name} is no file")
                if found.size > DOCKERFILE_BYTES:
                    raise _no_dockerfile(build, f"it has more than {DOCKERFILE_BYTES} bytes")
                return data.read().decode("utf-8", "surrogateescape")
            if ".." in found.linkname.lstrip("./").split("/"):  # behind what may be a link itself
                raise _no_dockerfile(build, f"the link {name} turns back on its way")
            name = normpath(join(dirname(name), found.linkname))
    raise _no_dockerfile(build, "its links go in a circle")


def _no_dockerfile(build: Build, why: str) -> EnvironmentUnavailable:
    return EnvironmentUnavailable(
        f"{build.dockerfile} cannot be read: {why}", hint="commit it, or name another `dockerfile`"
    )


def place_in(build: Build) -> str:
    """Return where the Dockerfile lies in the context."""
    return relpath(build.dockerfile, build.context or ".")


__all__ = ["PREPROCESSED", "place_in", "read_dockerfile"]
