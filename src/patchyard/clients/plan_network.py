"""What one plan was granted, behind one port inside: tunnels, requests, git and the indexes.

Who asks is hostile. What is not granted by name is refused, and each attempt is told.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from http import HTTPStatus

from patchyard.clients.dialling import Dialler, Resolve, resolved
from patchyard.clients.gateway_server import (
    AWAY,
    HEAD_TIMEOUT_S,
    Answering,
    Exchange,
    Refused,
    accepting,
    parse_head,
    turn_away,
)
from patchyard.clients.gateways import IndexGateways
from patchyard.clients.gateways import variables as index_variables
from patchyard.clients.git_gateway import FOLDER, git_target, git_variables
from patchyard.clients.keeping_secrets import require_secret
from patchyard.clients.leaving import Left, while_wanted
from patchyard.clients.proxy_head import (
    Head,
    Target,
    parse,
    read_head,
    shown_path,
    tunnel_target,
    web_target,
)
from patchyard.clients.replies import Reply
from patchyard.clients.tally import Tally
from patchyard.clients.traffic_log import TrafficLog, Trial
from patchyard.clients.tunnel import tunnel
from patchyard.clients.web_forwarding import Forwarder
from patchyard.contracts.gateway import Opened, Tried
from patchyard.domain.addresses import shown
from patchyard.domain.carrying import NetworkBounds
from patchyard.domain.network import GIT, INDEX, NetworkGrant
from patchyard.domain.permits import Permit, Permits

INDEXES = ("/pypi/", "/npm/")
USUAL_PORT = 443  # of a request that names none: it is TLS outside
LOCAL = ("localhost", "127.0.0.1", "::1")  # the agent's own servers need no gateway


class PlanNetwork:
    """`contracts.gateway.Network`: serves one grant to all environments of a plan."""

    def __init__(
        self,
        permits: Permits,
        log: TrafficLog,
        *,
        dialler: Dialler,
        forwarder: Forwarder,
        indexes: IndexGateways,
    ) -> None:
        self._permits = permits
        self._log = log
        self._dialler = dialler
        self._forwarder = forwarder
        self._indexes = indexes

    def begin_call(self) -> None:
        """Count the bytes of a call from here on."""
        self._log.begin_call()

    def tried(self) -> Tried:
        """Return what was tried since this was last called."""
        return self._log.tried()

    @asynccontextmanager
    async def serve(
        self, listener: socket.socket, *, port: int, bounds: NetworkBounds
    ) -> AsyncIterator[Opened]:
        """See contracts.gateway.Network."""
        root = f"http://127.0.0.1:{port}"
        grant = self._permits.grant
        async with AsyncExitStack() as stack:
            answering = None
            if INDEX in grant.gateways:
                answering = await stack.enter_async_context(self._indexes.answering(root))
            tally = Tally(bounds)
            door = _Door(self, port, answering, tally)
            most = grant.max_connections  # at once; further ones wait
            if bounds.connections is not None and bounds.connections <= most:
                most += AWAY
            await stack.enter_async_context(accepting(listener, door.serve, connections=most))
            yield Opened(variables=self._variables(root), counting=tally)

    def _variables(self, root: str) -> Mapping[str, str]:
        grant = self._permits.grant
        proxies = ("http_proxy", "https_proxy") if grant.hosts or grant.secrets else ()
        named = {rule.host for rule in (*self._permits.hosts, *self._permits.opened)}
        found = {"PATCHYARD_GATEWAY": root}
        for name in proxies:
            found |= {name: root, name.upper(): root}
        for name in ("no_proxy", "NO_PROXY"):
            found[name] = ",".join(each for each in LOCAL if each not in named)
        if proxies:
            found["NODE_USE_ENV_PROXY"] = "1"
        if INDEX in grant.gateways:
            found |= index_variables(root)
        if GIT in grant.gateways:
            found |= git_variables(root, grant)
        return found

    async def carry(
        self, head: Head, trial: Trial, reader: asyncio.StreamReader, reply: Reply
    ) -> None:
        """Open a tunnel. Raises Refused."""
        trial.gateway, trial.method = "connect", ""
        target = tunnel_target(head)
        trial.host, trial.port = target.host, target.port or 0
        rule = self._permits.tunnel(target.host, trial.port)
        if rule is None:
            raise self._denied(target)
        await tunnel(rule, trial, (reader, reply), self._dialler)

    async def forward(
        self, head: Head, target: Target, trial: Trial, reader: asyncio.StreamReader, reply: Reply
    ) -> None:
        """Ask a host. Raises Refused."""
        path = shown_path(target.path)
        trial.gateway, trial.host, trial.port, trial.path = (
            "http",
            target.host,
            target.port or USUAL_PORT,
            path,
        )
        permit = self._permits.web(
            head.method, target.host, target.port, path, scheme=target.scheme
        )
        if permit is None:
            raise self._denied(target)
        await self._asked(head, target, permit, trial, reader, reply)

    async def read_repository(
        self, head: Head, trial: Trial, reader: asyncio.StreamReader, reply: Reply
    ) -> None:
        """Ask where the repository came from. Raises Refused."""
        trial.gateway, trial.path = "git", shown_path(head.target)
        if GIT not in self._permits.grant.gateways:
            raise Refused(HTTPStatus.FORBIDDEN, "this plan may not read its repository's origin")
        target, permit = git_target(head, self._permits)
        trial.host, trial.path = target.host, shown_path(target.path)
        await self._asked(head, target, permit, trial, reader, reply)

    async def _asked(
        self,
        head: Head,
        target: Target,
        permit: Permit,
        trial: Trial,
        reader: asyncio.StreamReader,
        reply: Reply,
    ) -> None:
        trial.port = permit.rule.port
        await self._forwarder.forward(head, target, permit, trial, (reader, reply))

    def _denied(self, target: Target) -> Refused:
        port = target.port or USUAL_PORT
        place = f"{shown(target.host)}:{port}"
        allowed = (
            ", ".join((*self._permits.grant.hosts, *self._permits.grant.gateways)) or "nothing"
        )
        return Refused(
            HTTPStatus.FORBIDDEN,
            f"{place} is not allowed this way (--allow-host names hosts); allowed: {allowed}",
        )

    def trial(self, tally: Tally) -> AbstractContextManager[Trial]:
        """Keep what becomes of one attempt of an environment."""
        return self._log.trial(tally)


@asynccontextmanager
async def open_network(
    grant: NetworkGrant, environ: Mapping[str, str], *, spent: int = 0, resolve: Resolve = resolved
) -> AsyncIterator[PlanNetwork]:
    """Open what a plan was granted. Raises UsageError where a secret's variable is not set."""
    permits = Permits(grant)
    for secret in permits.secrets:
        require_secret(secret, environ)
    dialler = Dialler(resolve)
    async with Forwarder(dialler, environ) as forwarder:
        yield PlanNetwork(
            permits,
            TrafficLog(grant, spent=spent),
            dialler=dialler,
            forwarder=forwarder,
            indexes=IndexGateways(environ),
        )


class _Door:
    """The port of one environment."""

    def __init__(
        self, network: PlanNetwork, port: int, answering: Answering | None, tally: Tally
    ) -> None:
        self._network = network
        self._port = port
        self._answering = answering
        self._tally = tally

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, or turn it away."""
        with self._tally.connection() as refusal:
            if refusal is None:
                await self._requests(reader, writer)
                return
        with self._network.trial(self._tally) as trial:
            trial.refuse(refusal)
            await turn_away(reader, writer, refusal)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_open = True
        while is_open:
            reply = Reply(writer=writer)
            try:
                with self._network.trial(self._tally) as trial:
                    is_open = await self._one(trial, reader, reply)
            except Refused as refused:
                await reply.refuse(refused)
                return
            except BaseException as error:
                reply.break_off()
                passing = (OSError, TimeoutError, asyncio.IncompleteReadError)
                if isinstance(error, passing) or not isinstance(error, Exception):
                    raise
                # one connection's trouble must not end the others
                raise ConnectionError(f"{type(error).__name__}: {error}") from error

    async def _one(self, trial: Trial, reader: asyncio.StreamReader, reply: Reply) -> bool:
        """Answer one request; return whether another may follow. Raises Refused."""
        trial.is_silent = True
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            data = await read_head(reader)
        trial.is_silent = False
        head = parse(data)
        trial.method = head.method
        reply.is_old = head.is_old
        trial.require_room()
        try:
            if head.method == "CONNECT":
                await self._network.carry(head, trial, reader, reply)
                return False
            async with while_wanted(reader, lambda: trial.up + trial.down):
                return await self._answered(head, data, trial, reader, reply)
        except Left as error:
            trial.reason = str(error)
            raise

    async def _answered(
        self, head: Head, data: bytes, trial: Trial, reader: asyncio.StreamReader, reply: Reply
    ) -> bool:
        target = web_target(head, port=self._port)
        if target is not None:
            await self._network.forward(head, target, trial, reader, reply)
            return False
        if head.target.startswith(FOLDER):
            await self._network.read_repository(head, trial, reader, reply)
            return False
        return await self._index(head, data, trial, reply)

    async def _index(self, head: Head, data: bytes, trial: Trial, reply: Reply) -> bool:
        trial.path = shown_path(head.target)
        if self._answering is None or not head.target.startswith(INDEXES):
            raise Refused(HTTPStatus.NOT_FOUND, "this gateway has no such path")
        trial.gateway = "index"
        exchange = Exchange(parse_head(data), reply.writer, count=trial.came)
        try:
            trial.sent(len(data))
            await self._answering(exchange)
        finally:
            reply.is_begun = exchange.status is not None
            trial.status = exchange.status.value if exchange.status is not None else 0
        return exchange.is_whole and head.header("connection").lower() != "close"


__all__ = ["INDEXES", "LOCAL", "USUAL_PORT", "PlanNetwork", "open_network"]
