"""Images that are on a machine, or are not, or are made for another one."""

import platform
from collections.abc import Mapping
from typing import Any

from patchyard.domain.errors import EnvironmentUnavailable

ARCHITECTURES = {"aarch64": "arm64", "armv7l": "arm", "x86_64": "amd64"}
"""How images call what the kernel calls otherwise."""


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


def no_image(name: str) -> EnvironmentUnavailable:
    """Return the refusal of an image that is not there."""
    return EnvironmentUnavailable(
        f"there is no image {name!r} here", hint="pull, build or load it first"
    )


__all__ = ["ARCHITECTURES", "no_image", "require_runnable"]
