"""What trust lets a repository's settings decide, as data and as sentences."""

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from patchyard.cli.values import plain, shown
from patchyard.clients.cli_walls import PASSED_ON
from patchyard.configuration import REPOSITORY_FILE, Configuration
from patchyard.domain.devcontainer_grants import DevcontainerGrant
from patchyard.domain.entrusted import names_in
from patchyard.domain.mcp import McpServer
from patchyard.domain.network import GATEWAY, GIT, can_upload, rule_of, secret_of
from patchyard.domain.network_settings import NetworkSettings
from patchyard.domain.settings import Settings
from patchyard.domain.sizes import shown_bytes


def granted(trusted: Configuration, ignored_before: Collection[str]) -> Mapping[str, Any]:
    """Return what counts by trust alone, by the names of settings, as their file says it.

    `ignored_before` are the names that are passed over while the repository is not trusted.
    """
    said = next(
        (e.settings for e in reversed(trusted.layers) if e.origin == REPOSITORY_FILE), Settings()
    )
    names = (name for name in ignored_before if name not in trusted.ignored)
    found = {name: _value(said, name) for name in names}
    return {name: value for name, value in found.items() if value}


def _value(said: Settings, name: str) -> Any:
    """Return a setting, or a part of one: `limits.max_steps`."""
    value: Any = said
    for part in name.split("."):
        value = getattr(value, part, None)  # files beside the settings are named among them
    return value


def grants_told(grants: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each thing that is granted."""
    for name, value in grants.items():
        if name in _TELLING:
            yield from _TELLING[name](value)
        else:
            yield f"{name}: {shown(name, value)}"


def grants_data(grants: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same as plain data."""
    return {name: plain(value) for name, value in grants.items()}


def _mounts(mounts: tuple[str, ...]) -> Iterator[str]:
    for text in mounts:
        path, _, mode = text.rpartition(":") if text.endswith((":ro", ":rw")) else (text, "", "")
        yield f"commands see {path} of this machine{', and can write there' * (mode == 'rw')}"


def _network(network: NetworkSettings) -> Iterator[str]:
    for text in network.allow_hosts or ():
        if GATEWAY.fullmatch(text):
            is_git = text.startswith(GIT)
            yield f"commands read {'the origin of this repository' if is_git else 'the indexes'}"
            continue
        rule = rule_of(text)
        yield f"commands reach {rule}{', and can upload there' * can_upload(rule)}"
    if network.planning:
        yield "commands reach these hosts while planning, too"
    for name, value in plain(network).items():
        if name.startswith("max_"):
            yield f"network.{name}: {shown(f'network.{name}', value)}"


def _secrets(secrets: tuple[str, ...]) -> Iterator[str]:
    for text in secrets:
        secret = secret_of(text)
        yield f"requests to {secret.rule} carry the secret {secret.name} of this machine"


def _variables(variables: Mapping[str, str]) -> Iterator[str]:
    for name, value in variables.items():
        yield f"commands are given {name}={value}"


def _mcp_servers(servers: Mapping[str, McpServer]) -> Iterator[str]:
    for name, server in servers.items():
        pairs = " ".join(f"{key}={value}" for key, value in server.env.items())
        words = shlex.join([server.command, *server.args])
        with_pairs = f", with {pairs}" if pairs else ""
        how = f"is reached at {server.url}" if server.url else f"runs {words}{with_pairs}"
        yield f"the MCP server {name} {how}"
        if named := names_in(server.env):
            yield f"the MCP server {name} is given {_named(named)} of this machine"
        if server.allow:
            yield f"the MCP server {name} may ask for {', '.join(server.allow)}"
        if server.read_only_tools:
            tools = ", ".join(server.read_only_tools)
            yield f"the MCP server {name} may be called while planning: {tools}"


_TELLING: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "mcp_servers": _mcp_servers,
    "mounts": _mounts,
    "network": _network,
    "secrets": _secrets,
    "variables": _variables,
}


def devcontainer_told(grant: DevcontainerGrant, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each thing that a devcontainer.json has of this machine."""
    if grant.problem:
        yield f"nothing counts of {grant.path} before it is mended: {grant.problem}"
    if grant.variables:
        yield f"{grant.path} is given {_named(grant.variables)} of this machine"
    if grant.fetched:
        passed = [name for name in PASSED_ON if name in environ]
        with_them = f", with {_named(passed)} of this machine" if passed else ""
        yield f"{grant.path} fetches {', '.join(grant.fetched)}{with_them}"
    needs = (
        *([f"{shown_bytes(grant.memory_bytes)} of memory"] if grant.memory_bytes else []),
        *([f"{grant.cpus:g} processors"] if grant.cpus else []),
        *([f"{shown_bytes(grant.storage_bytes)} of storage"] if grant.storage_bytes else []),
    )
    if needs:
        yield f"{grant.path} asks for {', '.join(needs)}"


def _named(names: Collection[str]) -> str:
    return f"the variable{'s' * (len(names) > 1)} {', '.join(names)}"


__all__ = ["devcontainer_told", "granted", "grants_data", "grants_told"]
