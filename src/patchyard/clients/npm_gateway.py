"""The gateway to the user's npm registries, scoped ones included, shown as one registry."""

from http import HTTPStatus
from typing import Any, Self
from urllib.parse import urlsplit

from patchyard.clients import npm
from patchyard.clients.gateway_server import Exchange, Refused
from patchyard.clients.index_settings import NpmSettings, read_npm_settings
from patchyard.clients.sources import Sources
from patchyard.clients.upstream import Certificates, Upstream, separated


class NpmGateway:
    """Answers `NAME` with metadata and `NAME/-/FILE` with a tarball."""

    def __init__(
        self, sources: Sources, upstream: Upstream, *, root: str, settings: NpmSettings
    ) -> None:
        self._sources = sources
        self._upstream = upstream
        self._root = root
        self._settings = settings  # its addresses without credentials
        self._tarballs: dict[str, dict[str, npm.Tarball]] = {}  # by package, by file name

    @classmethod
    async def open(cls, sources: Sources, *, root: str) -> Self:
        """Read npm's settings and connect to what they name. Raises Unavailable."""
        found = await read_npm_settings(sources.environ)
        urls, credentials = separated(
            [found.registry, *found.scopes.values()],
            authority=found.authority,
            netrc_file=sources.netrc_file,
        )
        settings = NpmSettings(
            registry=urls[0], scopes=dict(zip(found.scopes, urls[1:], strict=True))
        )
        certificates = Certificates(authorities=found.certificates, is_strict=found.is_strict)
        upstream = sources.upstream(credentials, certificates)
        return cls(sources, upstream, root=root, settings=settings)

    async def serve(self, exchange: Exchange, segments: tuple[str, ...]) -> None:
        """Answer one request. Raises Refused, UpstreamFailed, Unreadable."""
        package, _, filename = self._below_registry("/".join(segments)).partition("/-/")
        if not npm.NAME.fullmatch(package):
            raise Refused(HTTPStatus.NOT_FOUND, "there is PACKAGE and PACKAGE/-/FILE")
        if not filename:
            await self._metadata(exchange, package)
        elif npm.TARBALL.fullmatch(filename):
            await self._tarball(exchange, package, filename)
        else:
            raise Refused(HTTPStatus.NOT_FOUND, "no tarball of a package")

    def _below_registry(self, path: str) -> str:
        """Without a registry's own path, which npm keeps of the addresses in a lock file.

        Nor with the gateway's, which npm 7 to 9 put before each address once more.
        """
        package, ours, rest = path.partition(f"{urlsplit(self._root).path.strip('/')}/")
        if not package and ours and npm.NAME.fullmatch(rest.partition("/-/")[0]):
            path = rest
        for registry in (self._settings.registry, *self._settings.scopes.values()):
            own = urlsplit(registry).path.strip("/")
            if own and path.startswith(f"{own}/"):
                return path.removeprefix(f"{own}/")
        return path

    async def _metadata(self, exchange: Exchange, package: str) -> None:
        is_short = npm.SHORT_TYPE in exchange.asked.headers.get("accept", "")
        document = await self._document(package, is_short=is_short)
        await exchange.reply(
            HTTPStatus.OK,
            npm.write_document(document, folder=f"{self._root}/{package}/-"),
            content_type=npm.SHORT_TYPE if is_short else "application/json",
        )

    async def _document(self, package: str, *, is_short: bool) -> dict[str, Any]:
        scope = npm.scope_of(package)
        registry = self._settings.scopes.get(scope or "", self._settings.registry)
        page = await self._sources.page(
            self._upstream,
            f"{registry.rstrip('/')}/{package.replace('/', '%2f')}",
            accept=npm.ACCEPT_SHORT if is_short else npm.ACCEPT_FULL,
        )
        if page is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"the registry does not have {package}")
        document, self._tarballs[package] = npm.read_document(page.body)
        return document

    async def _tarball(self, exchange: Exchange, package: str, filename: str) -> None:
        if package not in self._tarballs:  # a lock file knows the address without the metadata
            await self._document(package, is_short=True)
        tarball = self._tarballs[package].get(filename)
        if tarball is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"{package} has no {filename}")
        await self._sources.send(exchange, self._upstream, tarball.url, tarball.hashes)


__all__ = ["NpmGateway"]
