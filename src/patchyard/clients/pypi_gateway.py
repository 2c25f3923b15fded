"""The gateway to the user's Python indexes: every source of pip's, shown as one simple index."""

import hashlib
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

from patchyard.clients import pypi
from patchyard.clients.gateway_server import Exchange, Refused
from patchyard.clients.index_settings import read_pip_settings
from patchyard.clients.sources import BINARY, Sources
from patchyard.clients.upstream import PORTS, Certificates, Upstream, separated

METADATA = ".metadata"
LISTED = 200_000  # files whose addresses are remembered; the oldest go


class PypiGateway:
    """Answers `simple/PROJECT/` and `files/TOKEN/FILE`. A token stands for a listed address."""

    def __init__(
        self,
        sources: Sources,
        upstream: Upstream,
        *,
        root: str,
        indexes: Sequence[str],
        find_links: Sequence[str],
    ) -> None:
        self._sources = sources
        self._upstream = upstream
        self._root = root
        self._indexes = tuple(indexes)
        self._find_links = tuple(find_links)
        self._listed: dict[str, pypi.FileLink] = {}

    @classmethod
    async def open(cls, sources: Sources, *, root: str) -> Self:
        """Read pip's settings and connect to what they name. Raises Unavailable."""
        settings = await read_pip_settings(sources.environ)
        urls, credentials = separated(
            [*settings.indexes, *settings.find_links], netrc_file=sources.netrc_file
        )
        certificates = Certificates(
            authorities=settings.certificates,
            client=settings.client_certificate,
            unchecked_hosts=settings.trusted_hosts,
        )
        count = len(settings.indexes)
        upstream = sources.upstream(credentials, certificates)
        return cls(sources, upstream, root=root, indexes=urls[:count], find_links=urls[count:])

    async def serve(self, exchange: Exchange, segments: tuple[str, ...]) -> None:
        """Answer one request. Raises Refused, UpstreamFailed, Unreadable."""
        match segments:
            case ("simple", name) if pypi.NAME.fullmatch(name):
                await self._project(exchange, pypi.normalised(name))
            case ("files", token, filename):
                await self._file(exchange, token, filename)
            case _:
                raise Refused(HTTPStatus.NOT_FOUND, "there is simple/PROJECT/ and files/")

    async def _project(self, exchange: Exchange, project: str) -> None:
        pages = [
            *[await self._flat_page(place, project) for place in self._find_links],
            *[await self._index_page(index, project) for index in self._indexes],
        ]
        found = [page for page in pages if page is not None]
        links = pypi.merged(found)
        if not links and None in pages:
            raise Refused(HTTPStatus.NOT_FOUND, f"no index has {project}")
        is_json = pypi.JSON_TYPE in exchange.asked.headers.get("accept", "")
        write = pypi.write_json if is_json else pypi.write_html
        await exchange.reply(
            HTTPStatus.OK,
            write(project, links, self._linked),
            content_type=pypi.JSON_TYPE if is_json else "text/html; charset=utf-8",
        )

    def _linked(self, link: pypi.FileLink) -> str:
        token = hashlib.sha256(link.url.encode()).hexdigest()[:32]
        self._listed.pop(token, None)  # so that it is the youngest
        self._listed[token] = link
        if len(self._listed) > LISTED:
            del self._listed[next(iter(self._listed))]
        return f"{self._root}/files/{token}/{link.filename}"

    async def _index_page(self, index: str, project: str) -> list[pypi.FileLink] | None:
        """The project's page of one index, None where it has none."""
        if urlsplit(index).scheme in PORTS:
            return await self._web_page(f"{index.rstrip('/')}/{project}/")
        page = _local(index) / project / "index.html"
        return _read_local(page) if page.is_file() else None

    async def _flat_page(self, place: str, project: str) -> list[pypi.FileLink] | None:
        """What a find-links place has of the project, None where it has nothing."""
        if urlsplit(place).scheme in PORTS:
            found = await self._web_page(place) or []
        elif (local := _local(place)).is_dir():
            links = (pypi.FileLink(filename=f.name, url=f.as_uri()) for f in local.iterdir())
            found = sorted(links, key=lambda link: link.filename)
        else:
            found = _read_local(local) if local.is_file() else []
        return [link for link in found if pypi.belongs(link.filename, project)] or None

    async def _web_page(self, url: str) -> list[pypi.FileLink] | None:
        page = await self._sources.page(self._upstream, url, accept=pypi.ACCEPT)
        if page is None:
            return None
        links = pypi.read_page(page.body, content_type=page.content_type, url=page.url)
        return [link for link in links if urlsplit(link.url).scheme in PORTS]

    async def _file(self, exchange: Exchange, token: str, filename: str) -> None:
        link = self._listed.get(token)
        if link is None or filename.removesuffix(METADATA) != link.filename:
            raise Refused(HTTPStatus.NOT_FOUND, "no listed page links this file; ask for its page")
        url, hashes = link.url, link.hashes
        if filename != link.filename:
            url += METADATA
            hashes = link.metadata if not isinstance(link.metadata, bool) else {}
        if urlsplit(url).scheme in PORTS:
            await self._sources.send(exchange, self._upstream, url, hashes)
            return
        local = _local(url)
        if not local.is_file():
            raise Refused(HTTPStatus.NOT_FOUND, "the file is gone")
        await exchange.send_file(local, content_type=BINARY)


def _local(place: str) -> Path:
    """The path that a `file:` address or a plain path names."""
    parts = urlsplit(place)
    return Path(unquote(parts.path) if parts.scheme == "file" else place).expanduser()


def _read_local(page: Path) -> list[pypi.FileLink]:
    return pypi.read_page(page.read_bytes(), content_type="text/html", url=page.as_uri())


__all__ = ["LISTED", "METADATA", "PypiGateway"]
