"""A bridge to an MCP server that listens: lines here, requests over HTTP there (streamable HTTP).

Runs as a program of its own inside the environment, so it reaches only what commands reach there:
through the gateway that the proxy variables name, where the walls have one. Follows no redirect.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import urllib.error
import urllib.request

from .wire import loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from email.message import Message
    from typing import IO, Any, Iterator

LONGEST = 8 * 1024 * 1024  # bytes of one answer, or of one line of a stream
AT_ONCE = 8  # requests
SILENT_S = 3600.0  # whoever asks ends us much earlier
GRANT = "; a plan reaches a host only where it is granted: --allow-host HOST"
NOT_REACHED = -32000  # JSON-RPC 2.0, 5.1: for servers to define


class _Staying(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: another address is another server."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


class Bridge:
    """One session with one server."""

    def __init__(self, url: str, out: IO[str]) -> None:
        self._url = url
        self._out = out
        self._session = ""
        self._version = ""
        self._saying = threading.Lock()
        self._slots = threading.Semaphore(AT_ONCE)
        self._opener = urllib.request.build_opener(_Staying())

    def run(self, lines: Iterator[str]) -> None:
        """Carry each line over until there are no more."""
        for line in lines:
            message = loaded(line)
            if message.get("method") == "initialize" or "id" not in message:
                self._carry(message)
                continue
            self._slots.acquire()
            threading.Thread(target=self._in_turn, args=(message,), daemon=True).start()

    def _in_turn(self, message: dict[str, Any]) -> None:
        try:
            self._carry(message)
        finally:
            self._slots.release()

    def _carry(self, message: dict[str, Any]) -> None:
        try:
            self._exchange(message)
        except (OSError, ValueError) as error:  # HTTPError and what http.client raises among them
            if "method" in message and "id" in message:
                why = "%s cannot be reached: %s%s" % (self._url, error, GRANT)
                told = {"code": NOT_REACHED, "message": why}
                self._say(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": told}))

    def _exchange(self, message: dict[str, Any]) -> None:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        if self._session:
            headers["Mcp-Session-Id"] = self._session
        if self._version:
            headers["MCP-Protocol-Version"] = self._version
        body = json.dumps(message).encode("ascii")
        request = urllib.request.Request(  # noqa: S310 - settings take http and https alone
            self._url, data=body, headers=headers
        )
        with self._opener.open(request, timeout=SILENT_S) as answer:
            self._session = answer.headers.get("Mcp-Session-Id") or self._session
            for text in _messages(answer, answer.headers):
                self._note(message, text)
                self._say(text)

    def _note(self, message: dict[str, Any], text: str) -> None:
        """Keep the version that was agreed on."""
        if message.get("method") == "initialize":
            told = loaded(text)
            result = told.get("result") if isinstance(told, dict) else None
            version = result.get("protocolVersion") if isinstance(result, dict) else None
            self._version = version if isinstance(version, str) else ""

    def _say(self, text: str) -> None:
        with self._saying:
            self._out.write(text + "\n")
            self._out.flush()


def _messages(answer: IO[bytes], headers: Message) -> Iterator[str]:
    """Yield the objects of an answer, each as one line."""
    if headers.get_content_type() != "text/event-stream":
        text = _within(answer.read(LONGEST + 1)).strip()
        if text:
            yield _one_line(text)
        return
    data: list[str] = []
    while True:
        line = _within(answer.readline(LONGEST + 1))
        if not line.strip("\r\n"):
            if data:
                yield _one_line("\n".join(data))
            data = []
            if not line:
                return
        elif line.startswith("data:"):
            data.append(line[5:].strip())


def _within(data: bytes) -> str:
    if len(data) > LONGEST:
        raise ValueError("it said more than %d bytes at once" % LONGEST)
    return data.decode("utf-8", "replace")


def _one_line(text: str) -> str:
    """Return the object without line ends; they stand in no JSON but between its parts."""
    return text.replace("\r", " ").replace("\n", " ")


def main() -> None:
    """Carry standard input to the address in the variable that is named last, and answers back."""
    Bridge(os.environ[sys.argv[-1]], sys.stdout).run(iter(sys.stdin.readline, ""))


__all__ = ["AT_ONCE", "LONGEST", "Bridge", "main"]
