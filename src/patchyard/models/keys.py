"""Keys of providers: known by the name of what holds them, read when used, never kept or shown."""

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from patchyard.clients.reader import NotPlain, plain_file
from patchyard.domain.errors import ModelUnavailable
from patchyard.domain.secret_forms import replaced
from patchyard.models.keyrings import Keyring

PROXIES = ("http_proxy", "https_proxy", "all_proxy")  # as the HTTP library reads them
HIDDEN = "[hidden]"
KEY_BYTES = 64 * 1024
# Shapes that vendors give their keys; hygiene for logs and recordings, not a wall.
_SHAPES = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|glpat-[A-Za-z0-9_-]{16,}|AKIA[0-9A-Z]{16}|xox[abprs]-[A-Za-z0-9-]{10,}"
    r"|AIza[0-9A-Za-z_-]{30,}|hf_[A-Za-z0-9]{20,})"
    r"|(?<=Bearer )[A-Za-z0-9._~+/=-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----BEGIN ).)*?-----END [A-Z ]*PRIVATE KEY-----",
    re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key by the name of what holds it: a variable, a file or an entry of the keyring.

    It is read anew for each request, so that a key that was changed counts from then on; of the
    keyring that is what `read` read last.
    """

    variable: str = ""  # all empty: the provider needs none
    file: str = ""  # absolute path
    entry: str = ""  # SERVICE/USER in the keyring
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    keyring: Keyring = field(default_factory=Keyring, repr=False, compare=False)

    async def read(self) -> None:
        """Read anew what takes time to read: an entry of the keyring."""
        if self.entry and not (self.variable or self.file):
            await self.keyring.read(self.entry)

    @property
    def is_named(self) -> bool:
        """Whether the provider needs one."""
        return bool(self.variable or self.file or self.entry)

    @property
    def is_set(self) -> bool:
        """Whether there is anything where it is said to be. Raises as `headers` does."""
        return bool(self._value)

    @property
    def place(self) -> str:
        """Where it is to be put, for people."""
        if self.variable:
            return f"the variable {self.variable}"
        return f"the file {self.file}" if self.file else f"the keyring, as {self.entry}"

    def headers(self, name: str = "") -> dict[str, str]:
        """Return the header that authorises a request; empty without a key.

        `name` is the header that takes the bare key; without it the key is a bearer's.
        Raises ModelUnavailable for a key that no header can hold, that others can read, or that
        the keyring does not give.
        """
        value = self._value
        if not value:
            return {}
        if not (value.isascii() and value.isprintable()):
            raise unusable(
                f"the key in {self.place} holds a line break or a character beyond ASCII",
                f"put the key alone into {self.place}",
            )
        return {name: value} if name else {"authorization": f"Bearer {value}"}

    def hide(self, text: str) -> str:
        """Return `text` without the key, passwords of proxies and whatever else looks like one."""
        return hide(text, (self.known, *proxy_secrets(self.environ)))

    @property
    def known(self) -> str:
        """The key where it can be read now, else nothing; only for hiding it."""
        try:
            return self._value
        except ModelUnavailable:
            return ""

    @property
    def _value(self) -> str:
        if self.variable:
            return self.environ.get(self.variable, "").strip()
        if self.file:
            return _in_file(Path(self.file))
        return self.keyring.value(self.entry) if self.entry else ""


def unusable(message: str, hint: str) -> ModelUnavailable:
    """Return the error for a key that is there and cannot be used."""
    return ModelUnavailable(message, hint=hint, details={"kind": "bad_key"})


def _in_file(path: Path) -> str:
    try:
        with plain_file(path, follows=True) as (descriptor, status):
            mode, data = status.st_mode, os.read(descriptor, KEY_BYTES)
    except FileNotFoundError:
        return ""
    except NotPlain as error:
        message = f"{path} cannot be read: it is no plain file"
        raise unusable(message, "put the key into a file of its own") from error
    except OSError as error:
        raise unusable(f"{path} cannot be read: {error.strerror}", "look at its rights") from error
    if mode & 0o077:
        raise unusable(f"others can read the key in {path}", f"`chmod 600 {path}`")
    return data.decode("ascii", "replace").strip()


def proxy_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return what must not be shown of the proxies in `environ`: passwords, and their header."""
    found: list[str] = []
    for name in (form for plain in PROXIES for form in (plain, plain.upper())):
        userinfo, at, _ = environ.get(name, "").rpartition("://")[2].rpartition("@")
        user, colon, password = userinfo.partition(":")
        if at and colon and password:
            pair = f"{unquote(user)}:{unquote(password)}"
            found += [password, unquote(password), base64.b64encode(os.fsencode(pair)).decode()]
    return tuple(dict.fromkeys(found))


def hide(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Return `text` with `secrets` and what has the shape of a known key taken out.

    Secrets are found in any usual writing: a service may repeat a key escaped, or in base 64.
    """
    text = replaced(text, secrets, HIDDEN)
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= 4:
            text = text.replace(secret, HIDDEN)
    return _SHAPES.sub(HIDDEN, text)


__all__ = ["HIDDEN", "KEY_BYTES", "PROXIES", "Key", "hide", "proxy_secrets", "unusable"]
