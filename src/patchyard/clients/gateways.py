"""The index gateways: what an environment may fetch, from where, and what was fetched.

Names, addresses, certificates and credentials of the user's indexes stay on this side.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus

from patchyard.clients import npm, pypi
from patchyard.clients.downloads import Downloads
from patchyard.clients.gateway_server import Answering, Exchange, Refused, serving
from patchyard.clients.npm_gateway import NpmGateway
from patchyard.clients.pypi_gateway import PypiGateway
from patchyard.clients.sources import Sources
from patchyard.clients.tally import Tally
from patchyard.clients.upstream import UpstreamFailed
from patchyard.config import places
from patchyard.contracts.gateway import Opened, Passed
from patchyard.domain.carrying import NetworkBounds
from patchyard.domain.errors import Unavailable

INSIDE_CACHE = "/tmp/.cache"  # noqa: S108 - inside, where /tmp is its own
LOG_ENTRIES = 10_000  # kept of one engine; older ones go
LOG_CHARS = 300  # of a name, which is whatever was asked for


class IndexGateways:
    """Serves the user's package indexes to environments."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._downloads = Downloads(places(environ).home / "downloads")
        self.log: list[Passed] = []

    @asynccontextmanager
    async def serve_indexes(
        self, listener: socket.socket, *, port: int, bounds: NetworkBounds
    ) -> AsyncIterator[Opened]:
        """Serve the indexes on `listener`, seen inside at `port`; yield variables for inside.

        The settings of pip and npm are read when the first request for each comes.
        """
        root = f"http://127.0.0.1:{port}"
        tally = Tally(bounds)
        async with (
            self.answering(root) as answering,
            serving(listener, answering, guard=tally),
        ):
            yield Opened(variables=variables(root), counting=tally, passed=self.log)

    @asynccontextmanager
    async def answering(self, root: str) -> AsyncIterator[Answering]:
        """Yield what answers requests for the indexes, whose addresses inside begin with `root`."""
        async with AsyncExitStack() as stack:
            sources = Sources(self._environ, self._downloads, stack)
            gateways = {
                "pypi": _Once(lambda: _pypi(sources, f"{root}/pypi")),
                "npm": _Once(lambda: _npm(sources, f"{root}/npm")),
            }

            async def answering(exchange: Exchange) -> None:
                await self._answer(exchange, gateways)

            yield answering
            await asyncio.to_thread(self._downloads.prune)

    async def _answer(self, exchange: Exchange, gateways: "Mapping[str, _Once]") -> None:
        gateway, *rest = exchange.asked.segments or ("",)
        failure = ""
        try:
            await _route(exchange, gateways)
        except (UpstreamFailed, Unavailable, pypi.Unreadable, npm.Unreadable) as error:
            failure = str(error)
            raise Refused(HTTPStatus.BAD_GATEWAY, failure) from error
        except (Refused, OSError) as error:
            failure = str(error) or type(error).__name__
            raise
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
            raise ConnectionError(failure) from error
        finally:
            self.log.append(
                Passed(
                    gateway=gateway if gateway in gateways else "",
                    name="/".join(rest)[:LOG_CHARS],
                    status=exchange.status.value if exchange.status else 0,
                    sent=exchange.sent,
                    failure=failure,
                )
            )
            del self.log[:-LOG_ENTRIES]


Serve = Callable[[Exchange, tuple[str, ...]], Awaitable[None]]


async def _pypi(sources: Sources, root: str) -> Serve:
    return (await PypiGateway.open(sources, root=root)).serve


async def _npm(sources: Sources, root: str) -> Serve:
    return (await NpmGateway.open(sources, root=root)).serve


async def _route(exchange: Exchange, gateways: "Mapping[str, _Once]") -> None:
    gateway, *rest = exchange.asked.segments or ("",)
    if gateway not in gateways:
        raise Refused(HTTPStatus.NOT_FOUND, "this gateway knows /pypi/ and /npm/")
    serve = await gateways[gateway].get()
    await serve(exchange, tuple(rest))


class _Once:
    """Opened when it is first needed; an opening that failed is tried again by the next."""

    def __init__(self, opening: Callable[[], Awaitable[Serve]]) -> None:
        self._opening = opening
        self._lock = asyncio.Lock()
        self._made: Serve | None = None

    async def get(self) -> Serve:
        """Return what was opened."""
        async with self._lock:
            if self._made is None:
                self._made = await self._opening()
            return self._made


def variables(root: str) -> dict[str, str]:
    """Return what points pip, uv, npm, pnpm and yarn at a gateway, caches inside included."""
    python, script = f"{root}/pypi/simple/", f"{root}/npm/"
    return {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": python,
        "PIP_TRUSTED_HOST": "127.0.0.1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_CACHE_DIR": f"{INSIDE_CACHE}/pip",
        "UV_DEFAULT_INDEX": python,
        "UV_INDEX_URL": python,
        "UV_CACHE_DIR": f"{INSIDE_CACHE}/uv",
        "npm_config_registry": script,
        "npm_config_replace_registry_host": "always",  # lock files name the registry they saw
        "npm_config_audit": "false",
        "npm_config_fund": "false",
        "npm_config_update_notifier": "false",
        "npm_config_cache": f"{INSIDE_CACHE}/npm",
        "YARN_REGISTRY": script,
        "YARN_NPM_REGISTRY_SERVER": script,
        "YARN_UNSAFE_HTTP_WHITELIST": "127.0.0.1",
    }


__all__ = ["LOG_CHARS", "LOG_ENTRIES", "IndexGateways", "variables"]
