"""The seam to what a review or a test is about: the change that a base already holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from patchyard.domain.changeset import Base, ChangeSet


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A change that is there already: all that was not committed, else the last commit."""

    title: str  # for people: `3 uncommitted files`, `commit 1a2b3c4 feat: ...`
    before: str  # the tree without it
    after: str  # the tree with it: the base's
    patch: str = ""  # what it changes, as text
    paths: tuple[str, ...] = ()  # what it changes
    coverage: str = ""  # which of its lines tests run, as an actor is told


class Subjects(Protocol):
    """Reads the subject of a base; trusted git, nothing that an agent could have written."""

    async def subject(self, base: Base, *, before: str = "") -> Subject | None:
        """Return the subject; None where nothing differs and there is no commit before.

        `before` is the tree without it, where that is known already.
        """
        ...

    async def without(self, base: Base, subject: Subject, changeset: ChangeSet) -> str:
        """Return the tree that has the change set and not the subject."""
        ...

    async def lines(self, base: Base, paths: Sequence[str]) -> Mapping[str, int]:
        """Return the number of lines by path; what is no file of the base is left out."""
        ...


__all__ = ["Subject", "Subjects"]
