"""Providers of the user's own `models.yaml`: endpoints by name, keys by the name of a variable."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchyard.clients.yaml import Document, read_yaml
from patchyard.domain.faults import Fault, Place, check_keys, kind_of
from patchyard.models.providers import KINDS, OPENAI_COMPATIBLE, ProviderSettings

SECTIONS = ("providers", "roles")  # roles are read by nobody yet
_ADDRESS = re.compile(r"https?://[^/\s@]+(?:/\S*)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "kind": (str,),
    "base_url": (str,),
    "api_key_env": (str,),
    "default_model": (str,),
    "context_tokens": (int,),
    "is_streaming": (bool,),
    "asks_usage": (bool,),
    "is_caching": (bool,),
    "limit_field": (str,),
    "first_byte_s": (int, float),
    "idle_s": (int, float),
}


def configured(path: Path) -> Mapping[str, ProviderSettings]:
    """Return the providers of the file at `path`; none when there is no file.

    Raises UsageError with file, line and column.
    """
    return providers_of(read_yaml(path)) if path.exists() else {}


def providers_of(document: Document) -> Mapping[str, ProviderSettings]:
    """Return the providers that `document` states. Raises UsageError with the place."""
    if document.value is None:
        return {}
    try:
        sections = check_keys(document.value, (), SECTIONS)
        stated = sections.get("providers") or {}
        names = stated if isinstance(stated, Mapping) else ()
        bodies = check_keys(stated, ("providers",), names)
        return {name: _settings(body, ("providers", name)) for name, body in bodies.items()}
    except Fault as fault:
        raise document.refused(fault) from fault


def _settings(body: Any, place: Place) -> ProviderSettings:
    said = check_keys(body, place, _TYPES)
    for key, value in said.items():
        if type(value) not in _TYPES[key]:
            wanted = kind_of(_TYPES[key][0]())
            raise Fault((*place, key), f"must be {wanted}, not {kind_of(value)}")
        if int in _TYPES[key] and not value > 0:
            raise Fault((*place, key), "must be more than 0")
    kind = said.get("kind", OPENAI_COMPATIBLE)
    if kind not in KINDS:
        known = f"known: {', '.join(KINDS)}"
        raise Fault((*place, "kind"), f"there is no kind {kind!r}", hint=known)
    if not _ADDRESS.fullmatch(said.get("base_url", "")):
        hint = 'such as "https://llm.example/v1": http or https, and no password in it'
        raise Fault((*place, "base_url"), "must be the endpoint's address", hint=hint)
    variable = said.get("api_key_env", "")
    if variable and not _VARIABLE.fullmatch(variable):
        hint = "put the key into an environment variable and write the variable's name here"
        raise Fault((*place, "api_key_env"), "must be the name of a variable", hint=hint)
    return ProviderSettings(**{**said, "kind": kind})


__all__ = ["SECTIONS", "configured", "providers_of"]
