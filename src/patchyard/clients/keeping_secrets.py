"""The values of a plan's secrets: read from the engine's variables when they are used."""

import base64
import os
from collections.abc import Mapping

from patchyard.domain.errors import UsageError
from patchyard.domain.network import SecretRule


def require_secret(secret: SecretRule, environ: Mapping[str, str]) -> str:
    """Return a secret's value. Raises UsageError where there is none that a header can hold."""
    value = environ.get(secret.name, "").strip()
    if not value:
        raise UsageError(
            f"--secret {secret}: there is no variable {secret.name} here",
            hint=f"set {secret.name} where the engine runs; its value is never handed inside",
            details={"name": secret.name},
        )
    if not (value.isascii() and value.isprintable()):
        raise UsageError(
            f"--secret {secret}: {secret.name} holds a line break or a character beyond ASCII",
            hint=f"put the secret alone into {secret.name}",
            details={"name": secret.name},
        )
    return value


def authorization(secret: SecretRule, environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the value of the header `Authorization`, and what of it must not be shown."""
    value = require_secret(secret, environ)
    if secret.scheme != "basic":
        return f"{'Bearer' if secret.scheme == 'bearer' else 'token'} {value}", (value,)
    coded = base64.b64encode(os.fsencode(value)).decode()
    return f"Basic {coded}", (coded, value, value.partition(":")[2])


__all__ = ["authorization", "require_secret"]
