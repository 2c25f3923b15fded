"""The roles there are: those of the package, and the user's own beside `config.yaml`."""

from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path

from patchyard.clients.reader import NotPlain, plain_file
from patchyard.clients.yaml import parse_yaml, read_yaml
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.faults import Fault
from patchyard.domain.role import Role
from patchyard.domain.role_policy import PROMPT_CHARS, parse_role

SHIPPED = ("architect", "developer", "reviewer", "tester")
FOLDER = "roles"  # of the user's own, beside config.yaml


def role_names(folder: Path) -> tuple[str, ...]:
    """Return the names of the roles there are; `folder` holds the user's own."""
    own = {path.stem for path in folder.glob("*.yaml")} if folder.is_dir() else set()
    return tuple(sorted({*SHIPPED, *own}))


def strays(folder: Path) -> tuple[str, ...]:
    """Return, a sentence each, what lies in `folder` and is no role, though it may be meant so."""
    if not folder.is_dir():
        return ()
    found = []
    for path in sorted(folder.iterdir()):
        policy = path.with_suffix(".yaml")
        if path.suffix == ".yml":
            found.append(f"{path} is not read: a policy is called {policy.name}")
        elif path.suffix == ".md" and not policy.exists():
            found.append(f"{path} is not read: its policy {policy.name} is missing")
    return tuple(found)


def role_named(name: str, folder: Path, *, tools: Collection[str]) -> Role:
    """Return a role; one of the user's own goes before one of the package.

    Raises UnknownName, UsageError with file, line and column.
    """
    if name not in role_names(folder):
        raise UnknownName.among("role", name, role_names(folder))
    path = folder / f"{name}.yaml"
    if path.exists():
        policy, prompt, source = read_yaml(path), _prompt(path.with_suffix(".md")), str(path)
    else:
        here, source = files("patchyard.roles"), "shipped"
        policy = parse_yaml(here.joinpath(f"{name}.yaml").read_bytes(), name=f"roles/{name}.yaml")
        prompt = here.joinpath(f"{name}.md").read_text(encoding="utf-8")
    roles = role_names(folder)
    try:
        return parse_role(name, policy.value, prompt, tools=tools, roles=roles, source=source)
    except Fault as fault:
        raise policy.refused(fault) from fault


def all_roles(folder: Path, *, tools: Collection[str]) -> Mapping[str, Role]:
    """Return all roles by name. Raises UsageError for the first that cannot be read."""
    return {name: role_named(name, folder, tools=tools) for name in role_names(folder)}


def _prompt(path: Path) -> str:
    try:
        with (
            plain_file(path, follows=True) as (descriptor, _),
            open(descriptor, encoding="utf-8", closefd=False) as file,
        ):
            return file.read(PROMPT_CHARS + 1)
    except (OSError, NotPlain, UnicodeDecodeError) as error:
        why = _why(error)
        raise UsageError(
            f"{path} cannot be read: {why}", hint="a role has its prompt there, in Markdown"
        ) from error


def _why(error: Exception) -> str:
    if isinstance(error, NotPlain):
        return "it is no plain file"
    return str(error.strerror) if isinstance(error, OSError) else "it is no UTF-8"


__all__ = ["FOLDER", "SHIPPED", "all_roles", "role_named", "role_names", "strays"]
