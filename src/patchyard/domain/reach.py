"""What must never be shown to an agent by name, and how places contain each other."""

from fnmatch import fnmatch

KEY_NAMES = (
    ".env", ".env.*", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".pypirc",
    ".npmrc", ".config", ".password-store", "*.pem", "*.key", "id_rsa*", "id_ed25519*",
    "id_ecdsa*", "credentials*", "*.kdbx", "*.p12", "*.pfx",
)  # fmt: skip


def is_key_name(name: str) -> bool:
    """Whether a file or folder of this name holds secrets, as far as a name can tell."""
    return any(fnmatch(name.lower(), pattern) for pattern in KEY_NAMES)


def is_within(path: str, place: str) -> bool:
    """Whether `path` is `place` or lies below it; both absolute and without links."""
    return place in {"/", path} or path.startswith(place.rstrip("/") + "/")


__all__ = ["KEY_NAMES", "is_key_name", "is_within"]
