"""What must never be shown to an agent by name, and how places contain each other."""

import re
from fnmatch import fnmatch

KEY_NAMES = (
    ".env", ".env.*", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".pypirc",
    ".npmrc", ".config", ".password-store", "*.pem", "*.key", "id_rsa*", "id_ed25519*",
    "id_ecdsa*", "credentials*", "*.kdbx", "*.p12", "*.pfx",
)  # fmt: skip


def is_key_name(name: str) -> bool:
    """Whether a file or folder of this name holds secrets, as far as a name can tell."""
    return any(fnmatch(name.lower(), pattern) for pattern in KEY_NAMES)


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a credential, by its name or its value."""
    if re.search(r"(?i)(token|secret|passw|api_?key|credential|private_?key)", name):
        return True
    known = r"(gh[pousr]_|github_pat_|glpat-|sk-[A-Za-z0-9]|xox[abp]-|AKIA[0-9A-Z]{12}|-----BEGIN )"
    return re.match(known, value) is not None


def is_within(path: str, place: str) -> bool:
    """Whether `path` is `place` or lies below it; both absolute and without links."""
    return place in {"/", path} or path.startswith(place.rstrip("/") + "/")


__all__ = ["KEY_NAMES", "is_key_name", "is_within", "looks_secret"]
