"""Certificates made for one test, by openssl."""

import ssl
import subprocess
from pathlib import Path


def served_as(name: str, folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Make a certificate for `name` that signs itself; return its file and a server's side."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-keyout", str(key), "-out", str(certificate), "-nodes", "-subj", f"/CN={name}"),
            *("-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1", "-days", "2"),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context
