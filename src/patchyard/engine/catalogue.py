"""Projects, resources, actions, invariants and trust: events of one stream, changed by decisions.

A decision is a pure function from what there is to the events that should follow. When another
process was faster, it decides again on what there is then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchyard.contracts.clock import Clock
from patchyard.contracts.journal import Journal, StoredEvent
from patchyard.domain.action import NAME, Action
from patchyard.domain.environment import HERE, kind_of_word, no_such_kind
from patchyard.domain.errors import Conflict, UnknownName, UsageError
from patchyard.domain.faults import Fault
from patchyard.domain.holdings import (
    SCHEMA,
    STREAM,
    TYPES,
    ActionSaved,
    Holdings,
    HomeEvent,
    InvariantAdded,
    InvariantRemoved,
    ProjectDeleted,
    ProjectSaved,
    ResourceRemoved,
    ResourceSaved,
    TrustGranted,
    TrustRevoked,
    fold,
)
from patchyard.domain.invariant import Invariant, Scope
from patchyard.domain.project import Project, context_value
from patchyard.domain.resource import Resource, names_of, require_free_word, require_type
from patchyard.engine.integrity import intact
from patchyard.engine.rows import Vocabulary, from_row, to_row

ATTEMPTS = 20  # writers of this stream are people at shells
HOME = Vocabulary(types=TYPES, schema=SCHEMA)

Decision = Callable[[Holdings], Sequence[HomeEvent]]


class Catalogue:
    """The one reader and writer of the stream "home"."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    async def holdings(self) -> Holdings:
        """Return what there is now. Raises JournalBroken where some of it is lost or altered."""
        entries = await intact(self._journal, STREAM, said="the journal of projects and trust")
        stored = StoredEvent.of_all(entries)
        return fold(
            Holdings(), [(one.version, await from_row(one, HOME, self._journal)) for one in stored]
        )

    async def change(self, decide: Decision) -> Holdings:
        """Append what `decide` says and return what there is then.

        Raises whatever `decide` raises, and Conflict when others are always faster.
        """
        for attempt in range(1, ATTEMPTS + 1):
            before = await self.holdings()
            events = decide(before)
            try:
                return await self._append(before, events)
            except Conflict as error:
                if attempt == ATTEMPTS or "found" not in error.details:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _append(self, before: Holdings, events: Sequence[HomeEvent]) -> Holdings:
        bodies: dict[str, bytes] = {}
        at = self._clock.now()
        encoded = [to_row(event, HOME, at, bodies) for event in events]
        if encoded:
            await self._journal.append(STREAM, before.version, encoded, bodies=bodies)
        return fold(before, enumerate(events, start=before.version + 1))

    async def create_project(self, project: Project) -> Project:
        """Add a project; it takes over what was set for the implicit one of its checkout.

        Raises UsageError when the name is taken or no name, or the checkout has a project.
        """
        _require_name(project.name)

        def decide(holdings: Holdings) -> Sequence[HomeEvent]:
            there = holdings.project_of(project.repository)
            if there is not None and not there.is_implicit:
                raise UsageError(
                    f"{project.repository} has a project already: {there.name}",
                    hint=f"use that one, or take it away: agents project delete {there.name}",
                )
            if there is not None and there.name == project.name:
                return _adopted(there, project, holdings)
            if project.name in holdings.projects:
                raise UsageError(
                    f"there is a project {project.name} already", hint="choose another name"
                )
            return _adopted(there, project, holdings) if there else [ProjectSaved(project=project)]

        return (await self.change(decide)).project(project.name)

    async def project_here(self, repository: str) -> Project:
        """Return the project of a checkout, made by itself when there is none."""

        def decide(holdings: Holdings) -> Sequence[HomeEvent]:
            if holdings.project_of(repository) is not None:
                return []
            name = _free_name(Path(repository).name, holdings)
            return [
                ProjectSaved(project=Project(name=name, repository=repository, is_implicit=True))
            ]

        found = (await self.change(decide)).project_of(repository)
        if found is None:
            raise AssertionError("a project was just saved for this repository")
        return found

    async def delete_project(self, name: str) -> None:
        """Take a project away. Raises UnknownName."""

        def decide(holdings: Holdings) -> Sequence[HomeEvent]:
            return [ProjectDeleted(name=holdings.project(name).name)]

        await self.change(decide)

    async def set_context(self, name: str, key: str, value: Any) -> Project:
        """Set one value of a project's context; None unsets it. Raises UsageError."""
        try:
            kept = context_value(key, value)
        except Fault as fault:
            raise UsageError(fault.message, hint=fault.hint) from fault

        def decide(holdings: Holdings) -> Sequence[HomeEvent]:
            project = holdings.project(name)
            if key == "execution_environment" and kept is not None:
                _require_place(kept, project, holdings)
            return [ProjectSaved(project=replace(project, **{key: kept}))]

        return (await self.change(decide)).project(name)

    async def link(self, name: str, resource: str) -> Project:
        """Link a resource to a project; harmless when it is linked. Raises UnknownName."""

        def decide(holdings: Holdings) -> Sequence[HomeEvent]:
            project = holdings.project(name)
            linked = (*project.resources, holdings.resource(resource).name)
            changed = replace(project, resources=tuple(dict.fromkeys(linked)))
            return [] if changed == project else [ProjectSaved(project=changed)]

        return (await self.change(decide)).project(name)

    async def unlink(self, name: str, resource: str) -> Project:
        """Take the link of a resource back; what was set for it stays set.

        Raises UnknownName for a resource that is not linked, with those that are.
        """

        def decide(holdings: Holdings) -> Sequence[HomeEvent]:
            project = holdings.project(name)
            if resource not in project.resources:
                raise UnknownName.among("linked resource", resource, project.resources)
            left = tuple(each for each in project.resources if each != resource)
            return [ProjectSaved(project=replace(project, resources=left))]

        return (await self.change(decide)).project(name)

    async def add_resource(self, resource: Resource) -> Resource:
        """Add a resource. Raises UsageError for a type that is not there or a name taken."""
        require_type(resource.type)
        _require_name(resource.name)
        require_free_word(resource.name)

        def decide(holdings: Holdings) -> Sequence[HomeEvent]:
            if resource.execution_environment is not None:
                _require_any(
                    resource.execution_environment, [*holdings.resources.values(), resource]
                )
            if resource.name in holdings.resources:
                raise UsageError(
                    f"there is a resource {resource.name} already",
                    hint="choose another name, or take it away:"
                    f" agents resource remove {resource.name}",
                )
            return [ResourceSaved(resource=resource)]

        await self.change(decide)
        return resource

    async def remove_resource(self, name: str) -> Mapping[str, Sequence[Project]]:
        """Take a resource away, also from the projects it is linked to, and return those.

        What was discovered in it goes along: by name, `name` first, the projects that each was
        linked to. Raises UnknownName.
        """
        gone: dict[str, Sequence[Project]] = {}

        def decide(holdings: Holdings) -> Sequence[HomeEvent]:
            removed = holdings.resource(name).name
            found = sorted(n for n, each in holdings.resources.items() if each.parent == removed)
            projects = [each for _, each in sorted(holdings.projects.items())]
            gone.clear()
            for each in (removed, *found):
                gone[each] = [project for project in projects if each in project.resources]
            return [ResourceRemoved(name=each) for each in gone]

        await self.change(decide)
        return gone

    async def save_action(self, action: Action) -> None:
        """Add an action, or put it in the place of the one of that name."""
        await self.change(lambda _: [ActionSaved(action=action)])

    async def add_invariant(self, invariant: Invariant) -> Invariant:
        """Add an invariant. Raises UsageError, UnknownName for a project that is not there."""
        if not invariant.text.strip():
            raise UsageError("an invariant needs a text")

        def decide(holdings: Holdings) -> Sequence[HomeEvent]:
            if invariant.scope == Scope.PROJECT:
                holdings.project(invariant.target)
            return [InvariantAdded(invariant=invariant)]

        await self.change(decide)
        return invariant

    async def remove_invariant(self, name: str) -> Invariant:
        """Take one away by its id or a unique beginning of it.

        Raises UnknownName, UsageError when several begin so.
        """
        removed: list[Invariant] = []

        def decide(holdings: Holdings) -> Sequence[HomeEvent]:
            ids = {one.invariant_id: one for one in holdings.invariants}
            found = [one for key, one in ids.items() if name and key.startswith(name.upper())]
            if len(found) > 1:
                listed = ", ".join(one.invariant_id for one in found)
                raise UsageError(
                    f"{name} is ambiguous: {len(found)} invariants begin with it",
                    hint=f"write more of it: {listed}",
                )
            if not found:
                raise UnknownName.among("invariant", name, ids)
            removed[:] = found
            return [InvariantRemoved(invariant_id=found[0].invariant_id)]

        await self.change(decide)
        return removed[0]

    async def trust(self, path: str, digest: str, marks: Mapping[str, str] | None = None) -> None:
        """Let these very settings of a repository decide; `marks` tell later which changed."""
        granted = TrustGranted(path=path, digest=digest, marks=marks or {})
        await self.change(lambda _: [granted])

    async def revoke(self, path: str) -> bool:
        """Let them decide no longer; return whether they did."""
        had: list[bool] = []

        def decide(holdings: Holdings) -> Sequence[HomeEvent]:
            had[:] = [path in holdings.trusted]
            return [TrustRevoked(path=path)] if had[0] else []

        await self.change(decide)
        return had[0]


def _adopted(implicit: Project, made: Project, holdings: Holdings) -> list[HomeEvent]:
    """Name an implicit project; its settings, resources and invariants go along."""
    kind = implicit.execution_environment or made.execution_environment
    project = replace(implicit, name=made.name, is_implicit=False, execution_environment=kind)
    events: list[HomeEvent] = [ProjectSaved(project=project)]
    if implicit.name == made.name:
        return events
    for one in holdings.invariants:
        if (one.scope, one.target) == (Scope.PROJECT, implicit.name):
            events.append(InvariantRemoved(invariant_id=one.invariant_id))
            events.append(InvariantAdded(invariant=replace(one, target=made.name)))
    return [*events, ProjectDeleted(name=implicit.name)]


def _require_place(name: str, project: Project, holdings: Holdings) -> None:
    """Raise UsageError unless plans of a project can work in `name` (A15)."""
    if kind_of_word(name) not in HERE and name not in names_of(project.linked(holdings.resources)):
        raise holdings.no_place(name, project)


def _require_any(name: str, known: Sequence[Resource]) -> None:
    """Raise UnknownName unless `name` is the word of a kind, or the name of a resource (A15)."""
    kind = kind_of_word(name)
    if kind not in HERE and name not in names_of(known):
        raise no_such_kind(name, linked=names_of(known))


def _require_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name", hint="letters, digits, dots and dashes, at most 100"
        )


def _free_name(wanted: str, holdings: Holdings) -> str:
    plain = "".join(char if char.isascii() and char.isalnum() else "-" for char in wanted)
    name = plain.strip("-")[:80] or "project"
    taken = set(holdings.projects)
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(one for one in numbered if one not in taken)


__all__ = ["ATTEMPTS", "HOME", "Catalogue", "Decision"]
