"""A registry of features on this machine's loopback, as the distribution specification says."""

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["registry"]

LAYER = "application/vnd.devcontainers.layer.v1+tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@contextmanager
def registry(body: Mapping[str, Any], install: str) -> Iterator[str]:
    """Serve one feature, and yield the name by which it is fetched."""
    layer = _layer({"devcontainer-feature.json": json.dumps(body), "install.sh": install})
    config = b"{}"
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": "application/vnd.devcontainers", **_described(config)},
        "layers": [{"mediaType": LAYER, **_described(layer)}],
        "annotations": {"dev.containers.metadata": json.dumps(body)},
    }
    parts = {_digest(each): each for each in (layer, config)}
    parts["1"] = json.dumps(manifest).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = parts.get(self.path.rpartition("/")[2])
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", MANIFEST)
            self.send_header("Content-Length", str(len(found or b"")))
            self.end_headers()
            self.wfile.write(found or b"")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"localhost:{server.server_port}/features/{body['id']}:1"
        finally:
            server.shutdown()
            thread.join()


def _layer(files: Mapping[str, str]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size, entry.mode = len(text.encode()), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return written.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _described(content: bytes) -> dict[str, Any]:
    return {"digest": _digest(content), "size": len(content)}
