"""Certificates made for one test, by openssl."""

import ssl
import subprocess
from pathlib import Path

EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def served_as(name: str, folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Make a certificate for `name` that signs itself; return its file and a server's side."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    _openssl(
        *("req", "-x509", *EC, "-keyout", str(key), "-out", str(certificate)),
        *("-subj", f"/CN={name}", "-days", "2"),
        *("-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1"),
    )
    return certificate, _server(certificate, key)


def authority_in(folder: Path) -> Path:
    """Make an authority, `ca.pem` with `ca.key`; return its certificate's file."""
    file = folder / "ca.pem"
    subject = ("-subj", "/CN=an authority of the tests", "-days", "2")
    _openssl("req", "-x509", *EC, "-keyout", str(folder / "ca.key"), "-out", str(file), *subject)
    return file


def signed_in(folder: Path, name: str, *, days: int = 2) -> ssl.SSLContext:
    """Return a server's side for `name`, signed by the folder's authority; over with `days=-1`."""
    made = folder / f"{name}{days}"
    key, asked, certificate = (Path(f"{made}.{end}") for end in ("key", "csr", "pem"))
    names = ("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}")
    _openssl("req", *EC, "-keyout", str(key), "-out", str(asked), *names)
    _openssl(
        *("x509", "-req", "-in", str(asked), "-out", str(certificate), "-days", str(days)),
        *("-CA", str(folder / "ca.pem"), "-CAkey", str(folder / "ca.key")),
        *("-copy_extensions", "copy"),
    )
    return _server(certificate, key)


def _server(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)
