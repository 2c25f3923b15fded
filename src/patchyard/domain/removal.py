"""Tests that were tried on a tree without the change they are about."""

from dataclasses import dataclass, field

from patchyard.domain.body import Body


@dataclass(frozen=True, kw_only=True)
class RemovalProven:
    """The proof was run without the change that the tests are about: an event."""

    subject: str  # the change, for people
    tree: str  # without it, with the tests
    noticed: tuple[str, ...] = ()  # commands that fail there and pass without the tests
    results: Body = field(default_factory=Body)  # of each command on that tree


__all__ = ["RemovalProven"]
