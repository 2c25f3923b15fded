"""What a worker says to others that it can do: the roles whose plans it takes, and its version.

Apart from the roles of a plan: what reads the version of a package takes long to load.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import version

from patchyard.domain.announcing import Skills
from patchyard.intake_roles import role_folder, tool_names
from patchyard.roles.library import role_named, role_names


def skills_of(environ: Mapping[str, str], named: Sequence[str]) -> Skills:
    """Return what a worker for the `named` roles (none: all there are) says that it can do.

    Raises UnknownName, UsageError for a role that cannot be read.
    """
    folder = role_folder(environ)
    names = tuple(dict.fromkeys(named)) or role_names(folder)
    roles = [role_named(name, folder, tools=tool_names()) for name in names]
    return Skills(
        roles=names,
        takes_all=not named,
        capabilities=tuple(dict.fromkeys(word for each in roles for word in each.capabilities)),
        expertise=tuple(dict.fromkeys(word for each in roles for word in each.expertise)),
        version=version("patchyard"),
    )


__all__ = ["skills_of"]
