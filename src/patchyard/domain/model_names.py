"""How a model is named: `PROVIDER:MODEL`. Which providers there are is not known here."""

from patchyard.domain.errors import UsageError


def split_name(name: str) -> tuple[str, str]:
    """Split `PROVIDER:MODEL` at the first colon. Raises UsageError when a part is missing."""
    provider, colon, model = name.strip().partition(":")
    if not colon or not provider or not model:
        raise UsageError(
            f"{name!r} names no model",
            hint="write PROVIDER:MODEL, such as ollama:qwen3-coder, or recorded:FILE",
        )
    return provider, model


__all__ = ["split_name"]
