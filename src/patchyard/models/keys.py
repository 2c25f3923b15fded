"""Keys of providers: known by the name of their variable, read when used, never kept or shown."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

HIDDEN = "[hidden]"
# Shapes that vendors give their keys; hygiene for logs and recordings, not a wall.
_SHAPES = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|glpat-[A-Za-z0-9_-]{16,}|AKIA[0-9A-Z]{16}|xox[abprs]-[A-Za-z0-9-]{10,}"
    r"|AIza[0-9A-Za-z_-]{30,}|hf_[A-Za-z0-9]{20,})"
    r"|(?<=Bearer )[A-Za-z0-9._~+/=-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
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

    def headers(self) -> dict[str, str]:
        """Return the header that authorises a request; empty without a key."""
        value = self.environ.get(self.variable, "") if self.variable else ""
        return {"authorization": f"Bearer {value.strip()}"} if value else {}

    def hide(self, text: str) -> str:
        """Return `text` without the key and whatever else looks like one."""
        value = self.environ.get(self.variable, "").strip() if self.variable else ""
        return hide(text, (value,) if value else ())


def hide(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Return `text` with `secrets` and what has the shape of a known key taken out."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= 4:
            text = text.replace(secret, HIDDEN)
    return _SHAPES.sub(HIDDEN, text)


__all__ = ["HIDDEN", "Key", "hide"]
