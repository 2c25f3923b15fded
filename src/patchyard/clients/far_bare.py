"""What a toolbox without walls is started with on a host that is reached over SSH."""

from collections.abc import Mapping
from typing import Any

from patchyard.clients.path_mapping import PathMapping
from patchyard.clients.rlimits import resource_limits
from patchyard.clients.ssh import one_line
from patchyard.domain.environment import EnvironmentSpec
from patchyard.domain.errors import StartBroken
from patchyard.toolbox.last_words import last_words

OWN_PLACES = {"PYTHONPYCACHEPREFIX": "{folder}/tmp/pycache"}
"""Variables that mean a place that is only theirs, which `/tmp` of a whole host is not."""


def bare_options(spec: EnvironmentSpec) -> Mapping[str, Any]:
    """Return what a toolbox is started with; the rest of it is filled in over there."""
    return {
        "grace_s": spec.orphan_grace_s,
        "output_bytes": spec.limits.output_bytes,
        "rlimits": resource_limits(spec.limits, bounds_memory=True, bounds_processes=False),
        "is_read_only": not spec.workspace.is_writable,
    }


def bare_variables(spec: EnvironmentSpec) -> Mapping[str, str]:
    """Return the variables of its commands; `{...}` is filled in over there."""
    mapping = PathMapping(here=spec.workspace.target, there="{workspace}")
    variables = {name: mapping.text_inward(value) for name, value in spec.variables.items()}
    own = {name: value for name, value in OWN_PLACES.items() if name in variables}
    path = ":".join(mapping.inward(each) for each in spec.path)
    return {"SHELL": "/bin/sh", "PATH": path, **variables, **own}


def refuse_unanswered(host: str, made: Mapping[str, Any]) -> None:
    """Raise StartBroken where the host says that the toolbox did not answer there."""
    if "failed" not in made:
        return
    words = one_line(last_words(str(made.get("said") or ""))) or "it did not answer"
    raise StartBroken(
        f"{host} cannot serve an environment: the toolbox did not start: {words}",
        hint="look on that host whether its python3 works, and whether it is busy",
    )


__all__ = ["OWN_PLACES", "bare_options", "bare_variables", "refuse_unanswered"]
