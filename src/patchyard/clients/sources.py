"""What both index gateways fetch with: pages kept for when nobody answers, files by their hash."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from http import HTTPStatus
from pathlib import Path

from patchyard.clients.closures import whole
from patchyard.clients.downloads import PIECE, Downloads, KeptPage, Mismatch
from patchyard.clients.gateway_server import Exchange, Refused
from patchyard.clients.http_trouble import FAILURES
from patchyard.clients.upstream import Certificates, Credentials, Page, Upstream, UpstreamFailed

FILE_BYTES = 8 * 1024**3  # the largest file that passes
BINARY = "application/octet-stream"
PASSED_HEADERS = ("content-range", "accept-ranges")


class Sources:
    """Opens upstreams, and fetches through the kept downloads."""

    def __init__(
        self, environ: Mapping[str, str], downloads: Downloads, stack: AsyncExitStack
    ) -> None:
        self.environ = environ
        self._downloads = downloads
        self._stack = stack

    @property
    def netrc_file(self) -> Path | None:
        """The user's netrc, where there is one."""
        named = self.environ.get("NETRC")
        path = Path(named) if named else Path(self.environ.get("HOME", "/nonexistent"), ".netrc")
        return path if path.is_file() else None

    def upstream(self, credentials: Credentials, certificates: Certificates) -> Upstream:
        """Return a client for one family of indexes, closed with the gateway."""
        made = Upstream(credentials, certificates)
        self._stack.push_async_callback(made.close)
        return made

    async def page(self, upstream: Upstream, url: str, *, accept: str) -> Page | None:
        """Return a page, None where the index has none; the kept one where nobody answers.

        Raises UpstreamFailed.
        """
        key = f"{accept} {url}"
        kept = self._downloads.page(key)
        try:
            page = await upstream.page(url, accept=accept, etag=kept.etag if kept else None)
        except UpstreamFailed as error:
            if kept is None or not error.is_away:
                raise
            return _from_kept(kept)
        if page.status == HTTPStatus.NOT_MODIFIED and kept is not None:
            return _from_kept(kept)
        if _is_ill(page.status):
            if kept is None:
                raise UpstreamFailed(f"the index answered {page.status}")
            return _from_kept(kept)
        if page.status == HTTPStatus.OK:
            self._downloads.keep_page(
                key,
                KeptPage(
                    content_type=page.content_type, url=page.url, etag=page.etag, body=page.body
                ),
            )
            return page
        if page.status >= HTTPStatus.BAD_REQUEST:
            return None
        raise UpstreamFailed(f"the index answered {page.status}")

    async def send(
        self, exchange: Exchange, upstream: Upstream, url: str, hashes: Mapping[str, str]
    ) -> None:
        """Answer with the file at `url`: the kept one, or as it comes in. Raises UpstreamFailed."""
        kept = self._downloads.find(hashes)
        if kept is not None:
            await exchange.send_file(kept, content_type=BINARY)
            return
        method, span = exchange.asked.method, exchange.asked.span
        headers = {"accept-encoding": "identity", **({"range": span} if span else {})}
        async with upstream.ask(method, url, headers) as response:
            status = HTTPStatus(response.status_code)
            if status not in {HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT}:
                raise _refusal(status)
            length = _length(response.headers.get("content-length"))
            if (length or 0) > FILE_BYTES:
                raise UpstreamFailed(f"the file is larger than {FILE_BYTES} bytes")
            passed = {n: response.headers[n] for n in PASSED_HEADERS if n in response.headers}
            await exchange.begin(status, {"Content-Type": BINARY, **passed}, length=length)
            if method == "GET":
                is_part = status == HTTPStatus.PARTIAL_CONTENT
                pieces = whole(response, response.aiter_raw(PIECE))
                try:
                    await self._pass(exchange, pieces, {} if is_part else hashes)
                except (*FAILURES, Mismatch) as error:
                    raise ConnectionError(str(error) or type(error).__name__) from error

    async def _pass(
        self, exchange: Exchange, pieces: AsyncIterator[bytes], hashes: Mapping[str, str]
    ) -> None:
        """Send and keep. The last piece waits for the check: a wrong file stays unfinished."""
        held, total = b"", 0
        with self._downloads.receive(hashes) as receiving:
            async for piece in pieces:
                total += len(piece)
                if total > FILE_BYTES:
                    raise ConnectionError("the file is larger than what passes")
                receiving.write(piece)
                await exchange.write(held)
                held = piece
            receiving.finish()
        await exchange.write(held)
        await exchange.end()


def _is_ill(status: int) -> bool:
    """Whether the index may well have the page and only does not give it now."""
    busy = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in busy


def _from_kept(kept: KeptPage) -> Page:
    return Page(
        status=HTTPStatus.OK,
        content_type=kept.content_type,
        body=kept.body,
        url=kept.url,
        etag=kept.etag,
    )


def _refusal(status: HTTPStatus) -> Refused | UpstreamFailed:
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return Refused(status, "no such range")
    if status >= HTTPStatus.BAD_REQUEST and not _is_ill(status):
        return Refused(HTTPStatus.NOT_FOUND, "the index does not have this file")
    return UpstreamFailed(f"the index answered {status.value}")


def _length(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


__all__ = ["BINARY", "FILE_BYTES", "PASSED_HEADERS", "Sources"]
