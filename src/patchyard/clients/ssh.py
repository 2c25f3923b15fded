"""Connections to hosts over SSH: by the user's OpenSSH configuration and known hosts, shared.

Whatever that configuration says, nothing of this machine is forwarded to a host: no agent, display,
port, variable or credential, and no command of its own is run there. What connects is the user's:
keys, agent, ProxyJump, ProxyCommand. A host key that is not known is refused.
"""

import asyncio
import contextlib
import functools
import os
import re
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from posixpath import exists, expanduser, isdir
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from patchyard.clients.known_hosts import read_known_hosts
from patchyard.clients.ssh_settings import Translation
from patchyard.domain.address import Address
from patchyard.domain.errors import EnvironmentBroken, EnvironmentUnavailable, UsageError
from patchyard.engine.answers import whole

if TYPE_CHECKING:
    from asyncssh import SSHClientConnection

CONNECT_S = 20.0  # from the name to a session, a jump included
ALIVE_S = 5.0  # between two signs of life; three that are missed end the connection
LINGER_S = 3.0  # an idle connection stays that long
MISSING = "the library for SSH is not installed"
SAID_CHARS = 500
SYSTEM = Path("/etc/ssh")


class Cut(EnvironmentBroken):
    """The connection broke: what was asked over it may have been done, or not."""


def library() -> Any:
    """Return the SSH library. Raises EnvironmentUnavailable where it is not installed."""
    try:
        import asyncssh  # noqa: PLC0415 - 270 ms that only this kind needs
    except ImportError as error:
        raise EnvironmentUnavailable(
            MISSING, hint="in Patchyard's clone: pip install '.[ssh]'"
        ) from error
    return asyncssh


ERRNO = re.compile(r"\[Errno -?\d+\] ")
"""What Python writes before the system's words."""


def one_line(said: object) -> str:
    """Return words of a host such that they begin no line of their own, and not without end."""
    return " ".join(str(said).split())[:SAID_CHARS]


async def connect(address: str, home: str) -> "SSHClientConnection":
    """Connect to a host. Raises Cut, UsageError, EnvironmentUnavailable with cause and cure."""
    named = f"patchyard-ssh-{os.getpid()}-"  # of a killed process the janitor returns it
    with tempfile.TemporaryDirectory(prefix=named) as folder:
        return await _connected(address, home, Translation(Path(folder), home))


async def _connected(address: str, home: str, translation: Translation) -> "SSHClientConnection":
    asyncssh = library()
    where = Address.parse(address)
    port = where.port
    limit_s = CONNECT_S
    try:
        async with asyncio.timeout(CONNECT_S) as scope:
            configs = await whole(asyncio.to_thread(_configs, home, translation))
            options = await _options(asyncssh, where, configs)
            port = options.port
            limit_s = min(CONNECT_S, options.config.get("ConnectTimeout") or CONNECT_S)
            scope.reschedule(asyncio.get_running_loop().time() + limit_s)
            known = _known_hosts(asyncssh, options.config, home)
            connection: SSHClientConnection = await asyncssh.connect(
                where.host,
                where.port or (),
                options=options,
                config=configs,
                known_hosts=known,
            )
            return connection
    except TimeoutError as error:
        slow = f"is slow: {one_line(error)}"
        if scope.expired():
            slow = f"did not answer within {limit_s:g} s"
        raise EnvironmentUnavailable(
            f"{_at(where, port)} {slow}",
            hint=f"look with `{where.command_with('-v')} true` what it is busy with",
        ) from error
    except asyncssh.ConfigParseError as error:
        raise UsageError(
            f"the OpenSSH configuration cannot be read: {translation.named(str(error))}",
            hint="mend that line, or keep it from hosts that Patchyard connects to"
            " (`Host` blocks, `Match originalhost`)",
        ) from error
    except asyncssh.HostKeyNotVerifiable as error:
        raise _untrusted(asyncssh, where, options, known) from error
    except asyncssh.PermissionDenied as error:
        raise EnvironmentUnavailable(
            f"{_at(where, port)} refused every way in: {one_line(error.reason)}",
            hint=f"`{where.command} true` has to work without a question: put your key there,"
            " and into the agent where it has a passphrase",
        ) from error
    except (OSError, asyncssh.Error, ValueError) as error:
        is_cut = isinstance(error, ConnectionResetError | BrokenPipeError | asyncssh.ConnectionLost)
        raise (Cut if is_cut else EnvironmentUnavailable)(
            f"{_at(where, port)} cannot be reached: {one_line(ERRNO.sub('', str(error)))}",
            hint=f"look with `{where.command} true` what is wrong",
        ) from error


def _at(where: Address, port: int) -> str:
    """Return the host with its port, as far as that is known: others may listen beside it."""
    return f"{where.host} (port {port})" if port else where.host


async def _options(asyncssh: Any, where: Address, configs: Sequence[str]) -> Any:
    """Return how to connect: the user's configuration, less all that it would send along.

    Of the keys that it names those count that are there, as for OpenSSH.
    """
    own = {
        "host": where.host,
        "port": where.port or (),
        "username": where.user or (),
        "config": configs,
        "agent_forwarding": False,
        "x11_forwarding": False,
        "gss_delegate_creds": False,
        "command": None,
        "env": (),
        "send_env": (),
        "request_pty": False,
        "connect_timeout": CONNECT_S,
        "login_timeout": CONNECT_S,
        "keepalive_interval": ALIVE_S,
        "keepalive_count_max": 3,
        "ignore_encrypted": True,
    }
    constructed = asyncssh.SSHClientConnectionOptions.construct
    said = (await constructed(**own, client_keys=None)).config
    keys, certificates = said.get("IdentityFile"), said.get("CertificateFile")
    return await constructed(
        **own,
        client_keys=() if keys is None else _keys(keys, is_alone=bool(said.get("IdentitiesOnly"))),
        client_certs=_keys(certificates or (), is_alone=False),
    )


def _keys(named: Sequence[str], *, is_alone: bool) -> list[str]:
    """Return the files of keys that can be read; where an agent has the private part, the other."""
    places = ((each, f"{each}.pub") if is_alone else (each,) for each in named)
    there = (next(filter(_is_readable, each), "") for each in places)
    return [each for each in there if each]


def _is_readable(key: str) -> bool:
    place = expanduser(key)
    return exists(place) and not isdir(place) and os.access(place, os.R_OK)


def _configs(home: str, translation: Translation) -> list[str]:
    """Return the user's configuration and the system's, as OpenSSH reads them."""
    places = (Path(home, ".ssh/config"), SYSTEM / "ssh_config")
    return [translation.of(place) for place in places if place.is_file()]


def _known_hosts(asyncssh: Any, config: Any, home: str) -> Any:
    """Return what the user's and the system's files of known hosts say."""
    own = config.get("UserKnownHostsFile")
    if own is None:
        own = [f"{home}/.ssh/known_hosts", f"{home}/.ssh/known_hosts2"]
    system = config.get("GlobalKnownHostsFile")
    if system is None:
        system = [str(SYSTEM / "ssh_known_hosts"), str(SYSTEM / "ssh_known_hosts2")]
    named = [re.sub(r"^(~|%d)(?=/)", home, str(place)) for place in (*own, *system)]
    return read_known_hosts(asyncssh, named)


def _untrusted(asyncssh: Any, where: Address, options: Any, hosts: Any) -> EnvironmentUnavailable:
    """Return the refusal of a host key: another one than is known, or one that nobody knows."""
    name = options.host_key_alias or options.host
    port = options.port
    known: Any = ((), (), ())
    with contextlib.suppress(ValueError, OSError):
        known = asyncssh.match_known_hosts(hosts, name, "", port)
    shown = name if port in {0, 22} else f"[{name}]:{port}"
    if any(known[:2]):
        return EnvironmentUnavailable(
            f"the host key of {_at(where, port)} has changed: it is not the one that your known"
            " hosts have. Somebody may be in between, or the host was made anew",
            hint=f"ask who runs it; when it was made anew: `ssh-keygen -R '{shown}'`, then"
            f" `{where.command} true` and compare the fingerprint",
        )
    return EnvironmentUnavailable(
        f"the host key of {_at(where, port)} is not known",
        hint=f"`{where.command} true`, and compare the fingerprint before you say yes",
    )


class Pool:
    """The connections of one event loop, one a host, shared by all who need it."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], SSHClientConnection] = {}
        self._users: dict[tuple[str, str], int] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}
        self._lingering: dict[tuple[str, str], asyncio.Task[None]] = {}

    @contextlib.asynccontextmanager
    async def connection(self, address: str, home: str) -> AsyncIterator["SSHClientConnection"]:
        """Lend the connection to a host, made when there is none that lives."""
        key = (address, home)
        self._users[key] = self._users.get(key, 0) + 1
        try:
            async with self._locks.setdefault(key, asyncio.Lock()):
                found = self._open.get(key)
                if found is None or found.is_closed():
                    found = self._open[key] = await connect(address, home)
            yield found
        finally:
            self._users[key] -= 1
            self._linger(key)

    def _linger(self, key: tuple[str, str]) -> None:
        """Close a connection that nobody uses for a while, and at the end of the loop."""
        if not self._users[key] and key in self._open and key not in self._lingering:
            task = asyncio.get_running_loop().create_task(self._close_later(key))
            self._lingering[key] = task

    async def _close_later(self, key: tuple[str, str]) -> None:
        try:
            await asyncio.sleep(LINGER_S)
        finally:
            del self._lingering[key]
            found = None if self._users[key] else self._open.pop(key, None)
            if found is not None:
                await _closed(found)

    async def drop(self, address: str, home: str) -> None:
        """Close a connection that is broken, for all who use it."""
        found = self._open.pop((address, home), None)
        if found is not None:
            await _closed(found)


async def _closed(connection: "SSHClientConnection") -> None:
    connection.abort()
    await connection.wait_closed()


@functools.cache
def _pools() -> "WeakKeyDictionary[asyncio.AbstractEventLoop, Pool]":
    return WeakKeyDictionary()


def pool() -> Pool:
    """Return the connections of the running event loop."""
    return _pools().setdefault(asyncio.get_running_loop(), Pool())


__all__ = [
    "ALIVE_S",
    "CONNECT_S",
    "LINGER_S",
    "MISSING",
    "SAID_CHARS",
    "Cut",
    "Pool",
    "connect",
    "library",
    "one_line",
    "pool",
]
