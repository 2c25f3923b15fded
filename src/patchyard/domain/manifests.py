"""Manifests with package scripts, which package managers run by themselves. Pure."""

import json

MANIFEST = "package.json"


def is_manifest(path: str) -> bool:
    """Whether `path` is a manifest that can hold package scripts."""
    return path.lower().rpartition("/")[2] == MANIFEST


def have_scripts_changed(old: bytes | None, new: bytes | None) -> bool:
    """Whether the package scripts of two manifests differ; None: there is none.

    What cannot be read as a manifest counts as changed, unless it is gone.
    """
    if new is None:
        return False
    after = _scripts(new)
    return after is None or after != ({} if old is None else _scripts(old))


def _scripts(manifest: bytes) -> object | None:
    try:
        body = json.loads(manifest.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return (body.get("scripts") or {}) if isinstance(body, dict) else None


__all__ = ["MANIFEST", "have_scripts_changed", "is_manifest"]
