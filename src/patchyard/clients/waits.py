"""How long a service is waited for, as data; loads no HTTP library."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Waits:
    """How long is waited for what, in seconds."""

    connect_s: float = 10.0
    first_byte_s: float = 600.0
    idle_s: float = 120.0  # between two pieces of one answer
    whole_s: float = 3600.0  # from the request to the end of its answer


__all__ = ["Waits"]
