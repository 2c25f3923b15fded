"""How installations and version managers lie on a disk, as data: what is shown, what hidden."""

from dataclasses import dataclass

KEYED = ("pip.conf", "etc/pip.conf", "etc/npmrc", ".npmrc", ".condarc", "condarc")
"""Settings of an installation itself, which may hold passwords of package indexes: hidden."""

COLLECTIONS = ("versions", "installs", "venvs", "tools", "python", "node-versions", "envs")
"""Folders of version managers that hold installations, or tools that do."""

WHOLE = (
    *("pyvenv.cfg", "conda-meta", "include/node", "pkg/tool", "lib/jrt-fs.jar", "lib/rustlib"),
    *("lib/jvm", "boot/plexus-classworlds.license", "include/python3.8"),
)
"""A prefix that holds one of these is an installation and nothing else."""

PARTS = ("bin", "sbin", "lib", "lib32", "lib64", "libexec", "include", "share")
"""What is shown of any other prefix."""

LOCAL_PARTS = (
    *("share/uv/python", "share/uv/tools", "share/pipx/venvs", "pipx/venvs"),
    *("share/mise/installs", "share/mise/shims", "share/fnm/node-versions"),
)
"""What is shown of ~/.local beside a `bin` that is in PATH."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a version manager lies on the disk."""

    entries: tuple[str, ...]  # directories of it that users put into PATH, below its root
    markers: tuple[str, ...]  # all of them exist below its root
    shown: tuple[str, ...]
    variable: str = ""  # tells its programs where the root is


LAYOUTS = (
    Layout(
        entries=("shims", "bin", "plugins/pyenv-virtualenv/shims"),
        markers=("versions", "libexec/pyenv"),
        shown=("bin", "libexec", "plugins", "pyenv.d", "shims", "version", "versions"),
        variable="PYENV_ROOT",
    ),
    Layout(
        entries=("shims", "bin"),
        markers=("versions", "libexec/rbenv"),
        shown=("bin", "libexec", "plugins", "rbenv.d", "shims", "version", "versions"),
        variable="RBENV_ROOT",
    ),
    Layout(
        entries=("shims", "bin"),
        markers=("installs", "plugins", "shims"),
        shown=("bin", "lib", "libexec", "asdf.sh", "defaults", "installs", "plugins", "shims"),
        variable="ASDF_DATA_DIR",
    ),
    Layout(entries=("shims",), markers=("installs", "shims"), shown=("installs", "shims")),
    Layout(
        entries=("bin",),
        markers=("bin/volta", "tools"),
        shown=("bin", "tools"),
        variable="VOLTA_HOME",
    ),
    Layout(entries=("bin",), markers=("bin/cargo",), shown=("bin",)),
    Layout(  # Homebrew; its `var` holds the data of services
        entries=("bin", "sbin"),
        markers=("Cellar",),
        shown=(
            *("Cellar", "Frameworks", "bin", "include", "lib", "libexec", "opt", "sbin", "share"),
            *("etc/ca-certificates", "etc/openssl@3", "etc/openssl@1.1"),
        ),
    ),
)


__all__ = ["COLLECTIONS", "KEYED", "LAYOUTS", "LOCAL_PARTS", "PARTS", "WHOLE", "Layout"]
