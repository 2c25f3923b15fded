"""Parts of a devcontainer.json that more than one reader looks at. Pure."""

from collections.abc import Mapping
from posixpath import dirname, join, normpath
from typing import Any

from patchyard.domain.errors import UsageError
from patchyard.domain.faults import Fault, Place, kind_of
from patchyard.domain.jsonc import parse_jsonc

BUILD = "build"
DOCKERFILE = "dockerfile"


def mapping_in(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return an object in `body`, an empty one where nothing is said. Raises Fault."""
    value = body.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Fault((key,), f"must be an object, not {kind_of(value)}")
    return value


def text_in(body: Mapping[str, Any], key: str, place: Place) -> str:
    """Return a text in `body`, which stands at `place`; empty for nothing. Raises Fault."""
    value = body.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Fault((*place, key), f"must be text, not {kind_of(value)}")
    return value


def build_in(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is said of the build, in the older words too. Raises Fault."""
    said = mapping_in(body, BUILD)
    if "dockerFile" in body:  # the older way to say it
        said = {DOCKERFILE: body["dockerFile"], **said}
        said |= {key: body[key] for key in ("context",) if key in body}
    return said


def dockerfile_in(text: str, config: str) -> str:
    """Return which Dockerfile the devcontainer.json `config` names, relative to the top.

    Empty where it names none of the repository's; what does not fit is named when it is used.
    Raises Fault where a variable decides which.
    """
    try:
        body = parse_jsonc(text, name=config)
        named = text_in(build_in(body), DOCKERFILE, (BUILD,)) if isinstance(body, Mapping) else ""
    except UsageError:
        return ""
    if "${" in named:
        raise Fault((BUILD, DOCKERFILE), "a variable decides which file it is")
    path = normpath(join(dirname(config), named)) if named else ""
    return "" if leads_out(path) or path == "." else path


def leads_out(path: str) -> bool:
    """Whether a path, relative to the top and as short as it can be, lies outside of it."""
    return path == ".." or path.startswith(("../", "/"))


__all__ = ["BUILD", "DOCKERFILE", "build_in", "dockerfile_in", "leads_out", "mapping_in", "text_in"]
