"""What an installation holds beside plans: events of the stream "home", and their pure fold."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from patchyard.domain.action import Action
from patchyard.domain.environment import no_such_kind
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.invariant import Invariant, Scope
from patchyard.domain.project import Project
from patchyard.domain.resource import Resource, Standing, names_of, not_linked, nothing_runs
from patchyard.domain.trust import Trust, void_because

STREAM = "home"
SCHEMA = 1  # version of the shapes below; readers upcast older ones


@dataclass(frozen=True, kw_only=True)
class ProjectSaved:
    """A project was made or changed."""

    project: Project


@dataclass(frozen=True, kw_only=True)
class ProjectDeleted:
    """A project was taken away; its plans stay."""

    name: str


@dataclass(frozen=True, kw_only=True)
class ResourceSaved:
    """A resource was added."""

    resource: Resource


@dataclass(frozen=True, kw_only=True)
class ResourceMoved:
    """A devcontainer stands otherwise than before (A+)."""

    name: str
    state: Standing
    cause: str = ""  # why it failed
    at: float = 0.0  # seconds since the epoch


@dataclass(frozen=True, kw_only=True)
class ResourceRemoved:
    """A resource was taken away."""

    name: str


@dataclass(frozen=True, kw_only=True)
class ActionSaved:
    """An action was made, or made anew under the same name."""

    action: Action


@dataclass(frozen=True, kw_only=True)
class InvariantAdded:
    """An invariant counts from now on."""

    invariant: Invariant


@dataclass(frozen=True, kw_only=True)
class InvariantRemoved:
    """An invariant counts no longer."""

    invariant_id: str


@dataclass(frozen=True, kw_only=True)
class TrustGranted:
    """The settings of a repository may decide, as long as they are these."""

    path: str  # absolute path of the checkout
    digest: str  # of its settings files
    marks: Mapping[str, str] = field(default_factory=dict)  # of each of them, to name a change


@dataclass(frozen=True, kw_only=True)
class TrustRevoked:
    """The settings of a repository may no longer decide."""

    path: str


HomeEvent = (
    ProjectSaved
    | ProjectDeleted
    | ResourceSaved
    | ResourceMoved
    | ResourceRemoved
    | ActionSaved
    | InvariantAdded
    | InvariantRemoved
    | TrustGranted
    | TrustRevoked
)


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """All of it, by name."""

    version: int = 0
    projects: Mapping[str, Project] = field(default_factory=dict)
    resources: Mapping[str, Resource] = field(default_factory=dict)
    standings: Mapping[str, ResourceMoved] = field(default_factory=dict)  # of devcontainers
    actions: Mapping[str, Action] = field(default_factory=dict)
    invariants: tuple[Invariant, ...] = ()
    trusted: Mapping[str, str] = field(default_factory=dict)  # path to digest
    marks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of files, by path too

    def project(self, name: str) -> Project:
        """Return a project. Raises UnknownName."""
        if name not in self.projects:
            raise _unknown("project", name, self.projects, "agents project create NAME")
        return self.projects[name]

    def resource(self, name: str) -> Resource:
        """Return a resource. Raises UnknownName."""
        if name not in self.resources:
            raise _unknown("resource", name, self.resources, "agents resource add TYPE NAME")
        return self.resources[name]

    def no_place(self, name: str, project: Project | None) -> UsageError:
        """Return the refusal of a name that means no place for plans of `project` (A15)."""
        linked = project.linked(self.resources) if project else ()
        found = self.resources.get(name)
        if found is None:
            return no_such_kind(name, linked=names_of(linked))
        if found.site is None:
            return nothing_runs(found, linked)
        return not_linked(found, linked, project=project.name if project else "")

    def project_of(self, repository: str) -> Project | None:
        """Return the project of a checkout: the newest that was made, else the implicit one."""
        found = [p for p in self.projects.values() if p.repository == repository]
        found.sort(key=lambda project: not project.is_implicit)
        return found[-1] if found else None

    def invariants_for(
        self, *, project: str | None = None, action: str | None = None
    ) -> tuple[Invariant, ...]:
        """Return those of the global scope, of a project and of an action (B10)."""
        wanted = {(Scope.GLOBAL, "")}
        if project is not None:
            wanted.add((Scope.PROJECT, project))
        if action is not None:
            wanted.add((Scope.ACTION, action))
        return tuple(one for one in self.invariants if (one.scope, one.target) in wanted)

    def is_trusted(self, path: str, digest: str) -> bool:
        """Whether these very settings of that repository may decide."""
        return self.trust_in(path, digest, {}).is_given

    def trust_in(self, path: str, digest: str, marks: Mapping[str, str]) -> Trust:
        """Return whether these very settings of that repository may decide; else, if it is void."""
        if path not in self.trusted:
            return Trust()
        if digest and self.trusted[path] == digest:
            return Trust(is_given=True)
        return Trust(void=void_because(self.marks.get(path, {}), marks))


def fold(holdings: Holdings, events: Iterable[tuple[int, HomeEvent]]) -> Holdings:
    """Return `holdings` after numbered `events`. Pure."""
    for version, event in events:
        holdings = replace(_HANDLERS[type(event)](holdings, event), version=version)
    return holdings


def _without(mapping: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key != name}


def _project(holdings: Holdings, event: ProjectSaved) -> Holdings:
    return replace(holdings, projects={**holdings.projects, event.project.name: event.project})


def _no_project(holdings: Holdings, event: ProjectDeleted) -> Holdings:
    left = tuple(
        one for one in holdings.invariants if (one.scope, one.target) != (Scope.PROJECT, event.name)
    )
    return replace(holdings, projects=_without(holdings.projects, event.name), invariants=left)


def _resource(holdings: Holdings, event: ResourceSaved) -> Holdings:
    return replace(holdings, resources={**holdings.resources, event.resource.name: event.resource})


def _resource_moved(holdings: Holdings, event: ResourceMoved) -> Holdings:
    return replace(holdings, standings={**holdings.standings, event.name: event})


def _unknown(what: str, name: str, known: Collection[str], adding: str) -> UnknownName:
    """Return the refusal of a name; where there is none at all, with what makes the first."""
    refused = UnknownName.among(what, name, known)
    if not known:
        refused.hint = f"there is none yet: `{adding}`"
    return refused


def _no_resource(holdings: Holdings, event: ResourceRemoved) -> Holdings:
    projects = {
        name: replace(p, resources=tuple(r for r in p.resources if r != event.name))
        for name, p in holdings.projects.items()
    }
    left = _without(holdings.resources, event.name)
    standings = _without(holdings.standings, event.name)
    return replace(holdings, resources=left, projects=projects, standings=standings)


def _action(holdings: Holdings, event: ActionSaved) -> Holdings:
    return replace(holdings, actions={**holdings.actions, event.action.name: event.action})


def _invariant(holdings: Holdings, event: InvariantAdded) -> Holdings:
    return replace(holdings, invariants=(*holdings.invariants, event.invariant))


def _no_invariant(holdings: Holdings, event: InvariantRemoved) -> Holdings:
    left = tuple(i for i in holdings.invariants if i.invariant_id != event.invariant_id)
    return replace(holdings, invariants=left)


def _trust(holdings: Holdings, event: TrustGranted) -> Holdings:
    trusted = {**holdings.trusted, event.path: event.digest}
    return replace(holdings, trusted=trusted, marks={**holdings.marks, event.path: event.marks})


def _no_trust(holdings: Holdings, event: TrustRevoked) -> Holdings:
    trusted, marks = (_without(each, event.path) for each in (holdings.trusted, holdings.marks))
    return replace(holdings, trusted=trusted, marks=marks)


_HANDLERS: Mapping[type[HomeEvent], Callable[[Holdings, Any], Holdings]] = {
    ProjectSaved: _project,
    ProjectDeleted: _no_project,
    ResourceSaved: _resource,
    ResourceMoved: _resource_moved,
    ResourceRemoved: _no_resource,
    ActionSaved: _action,
    InvariantAdded: _invariant,
    InvariantRemoved: _no_invariant,
    TrustGranted: _trust,
    TrustRevoked: _no_trust,
}

TYPES: Mapping[str, type[HomeEvent]] = {record.__name__: record for record in _HANDLERS}

__all__ = [
    "SCHEMA",
    "STREAM",
    "TYPES",
    "ActionSaved",
    "Holdings",
    "HomeEvent",
    "InvariantAdded",
    "InvariantRemoved",
    "ProjectDeleted",
    "ProjectSaved",
    "ResourceMoved",
    "ResourceRemoved",
    "ResourceSaved",
    "TrustGranted",
    "TrustRevoked",
    "fold",
]
