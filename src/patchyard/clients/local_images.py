"""Images that are on a machine, or are not, or are made for another one."""

import platform
import re
from collections.abc import Mapping
from typing import Any

from patchyard.domain.errors import EnvironmentUnavailable

ARCHITECTURES = {"aarch64": "arm64", "armv7l": "arm", "x86_64": "amd64"}
"""How images call what the kernel calls otherwise."""
REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+:/@-]{0,511}", re.ASCII)
"""A name with a registry, a tag and a digest, or an image's id."""


def require_runnable(reference: str, image: Mapping[str, Any]) -> None:
    """Raise EnvironmentUnavailable for an image of machines unlike this one."""
    own = ARCHITECTURES.get(platform.machine(), platform.machine())
    made_for = [
        str(image.get(key) or wanted) for key, wanted in (("Os", "linux"), ("Architecture", own))
    ]
    if made_for != ["linux", own]:
        raise EnvironmentUnavailable(
            f"the image {reference!r} is for {'/'.join(made_for)}, and this machine is linux/{own}",
            hint=f"take the image that is made for linux/{own}",
        )


def as_reference(name: str) -> str:
    """Return the name of an image, before it stands in an address; an empty one as it is.

    Raises EnvironmentUnavailable for what can be no image.
    """
    if not name:
        return name
    is_plain = REFERENCE.fullmatch(name) is not None
    if not is_plain or any(part in {"", ".", ".."} for part in name.split("/")):
        raise EnvironmentUnavailable(
            f"{name!r} is no name of an image", hint="write NAME, NAME:TAG or NAME@DIGEST"
        )
    return name


def no_image(name: str) -> EnvironmentUnavailable:
    """Return the refusal of an image that is not there."""
    return EnvironmentUnavailable(
        f"there is no image {name!r} here",
        hint=f"`docker pull {name}` (or `podman pull {name}`) gets it; or build or load it",
    )


__all__ = ["ARCHITECTURES", "REFERENCE", "as_reference", "no_image", "require_runnable"]
