"""Keys of providers: known by the name of their variable, read when used, never kept or shown."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from patchyard.domain.errors import ModelUnavailable

PROXIES = ("http_proxy", "https_proxy", "all_proxy")  # as the HTTP library reads them
HIDDEN = "[hidden]"
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
    """A key by the name of the variable that holds it."""

    variable: str  # empty: the provider needs none
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_set(self) -> bool:
        """Whether the variable holds anything."""
        return bool(self.environ.get(self.variable, ""))

    def headers(self, name: str = "") -> dict[str, str]:
        """Return the header that authorises a request; empty without a key.

        `name` is the header that takes the bare key; without it the key is a bearer's.
        Raises ModelUnavailable for a key that no header can hold.
        """
        if not self._value:
            return {}
        if not (self._value.isascii() and self._value.isprintable()):
            raise ModelUnavailable(
                f"the key in {self.variable} holds a line break or a character beyond ASCII",
                hint=f"put the key alone into {self.variable}",
                details={"kind": "bad_key"},
            )
        return {name: self._value} if name else {"authorization": f"Bearer {self._value}"}

    def hide(self, text: str) -> str:
        """Return `text` without the key, passwords of proxies and whatever else looks like one."""
        return hide(text, (self._value, *proxy_secrets(self.environ)))

    @property
    def _value(self) -> str:
        return self.environ.get(self.variable, "").strip() if self.variable else ""


def proxy_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return what must not be shown of the proxies in `environ`: passwords, and their header."""
    found: list[str] = []
    for name in (form for plain in PROXIES for form in (plain, plain.upper())):
        userinfo, at, _ = environ.get(name, "").rpartition("://")[2].rpartition("@")
        user, colon, password = userinfo.partition(":")
        if at and colon and password:
            pair = f"{unquote(user)}:{unquote(password)}"
            found += [password, unquote(password), base64.b64encode(pair.encode()).decode()]
    return tuple(dict.fromkeys(found))


def hide(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Return `text` with `secrets` and what has the shape of a known key taken out."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= 4:
            text = text.replace(secret, HIDDEN)
    return _SHAPES.sub(HIDDEN, text)


__all__ = ["HIDDEN", "PROXIES", "Key", "hide", "proxy_secrets"]
