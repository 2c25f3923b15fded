"""What stands in a `package.json`, as far as it has its form. Pure."""

from collections.abc import Mapping

from patchyard.toolbox.wire import loaded


def package_of(text: str | None) -> Mapping[str, object]:
    """Return the object that a `package.json` is; empty for none, and for what is no object."""
    try:
        found = loaded(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def table_of(package: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Return the object at one of its names, such as `scripts`; empty where there is none."""
    found = package.get(name)
    return found if isinstance(found, dict) else {}


__all__ = ["package_of", "table_of"]
