"""What each environment of a plan is started with: workspace, mounts, variables, limits."""

from collections.abc import Mapping, Sequence

from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.devcontainer import Devcontainer
from patchyard.domain.environment import (
    IN_PLACE,
    STRENGTH,
    EnvironmentSpec,
    ExecutionEnvironment,
    Limits,
    Mount,
    Site,
    walls_word,
)
from patchyard.domain.environment_limits import EnvironmentLimits, in_force, limits_for
from patchyard.domain.plan import PlanSpec
from patchyard.domain.routing import route_of, sites_of
from patchyard.domain.tooling import COMMAND
from patchyard.domain.trust import stricter_environments
from patchyard.engine.entrusting import apart
from patchyard.engine.equipment import Equipment

NO_DEVCONTAINER = Devcontainer(path="")
PYCACHE = "/tmp/pycache"  # noqa: S108 - inside, where /tmp is its own


def general_site(spec: PlanSpec) -> Site:
    """Return where a call goes whose tool has no setting of its own."""
    return route_of(spec).site


def general_kind(spec: PlanSpec) -> ExecutionEnvironment:
    """Return the kind of that place."""
    return general_site(spec).kind


def may_have_setup(spec: PlanSpec) -> bool:
    """Whether commands may run before the work: said ones, or those of features not yet read."""
    own = spec.devcontainers.get(general_site(spec).resource, NO_DEVCONTAINER)
    return bool(spec.setup or own.extension)


def general_walls(spec: PlanSpec) -> ExecutionEnvironment:
    """Return the kind whose walls stand there."""
    return spec.walls_at(general_site(spec))


def weakest_walls(
    spec: PlanSpec, *, fallen: Mapping[str, str] | None = None
) -> ExecutionEnvironment:
    """Return the kind of the weakest walls around the plan's work: its commands, and all else."""
    sites = working_sites(spec, fallen=fallen)
    return min(map(spec.walls_at, sites), key=STRENGTH.__getitem__)


def working_sites(spec: PlanSpec, *, fallen: Mapping[str, str] | None = None) -> Sequence[Site]:
    """Return where commands run, and where a call goes whose tool has no setting of its own.

    `fallen` are the preferred places that were given up.
    """
    return (route_of(spec, COMMAND, fallen=fallen).site, general_site(spec))


def walls_of(site: Site, spec: PlanSpec) -> str:
    """Return the word for how strong a place of a plan is; see domain.environment."""
    found = spec.resource(site.resource)
    return walls_word(spec.walls_at(site), found.runtime if found else "")


def specs_for(
    equipment: Equipment,
    plan_id: str,
    spec: PlanSpec,
    workspace: WorkspaceRef,
    *,
    purpose: str,
    is_writable: bool,
    variables: Mapping[str, str] | None = None,
) -> Mapping[Site, EnvironmentSpec]:
    """Return what to start each place with, for one purpose of one plan."""
    found = {
        site: _spec(
            plan_id,
            spec,
            workspace,
            site=site,
            purpose=purpose,
            is_writable=is_writable,
            variables=variables or {},
        )
        for site in sites_of(spec)
        if site.kind in equipment.environments
    }
    return {
        site: apart(made, equipment.vacant(), server=site.server, mounts=spec.mounts)
        if site.server
        else made
        for site, made in found.items()
    }


def _inside(kind: ExecutionEnvironment, spec: PlanSpec, workspace: WorkspaceRef) -> str:
    """The one path: that of the source checkout, where the kind can make it so."""
    return workspace.root if kind in IN_PLACE else spec.repository


def image_of(site: Site, spec: PlanSpec) -> str:
    """Return the image of the linked resource that `site` is reached through; empty: none.

    A container that names none has that of the repository's language (F2.17).
    """
    found, own = spec.resource(site.resource), spec.devcontainers.get(site.resource)
    image = (found.image if found else "") or (own.image if own else "")
    return image or (spec.image if site.kind == ExecutionEnvironment.CONTAINER else "")


def limits_of(site: Site, spec: PlanSpec) -> Limits:
    """Return what `site` may use: as typed, by its resource, by the project and files, as usual.

    What a devcontainer asks of its host comes after its resource; that of an untrusted repository
    counts only where it is less than the project, the files and the defaults give.
    """
    found, needs = spec.resource(site.resource), spec.devcontainers.get(site.resource)
    own = [] if found is None else [found.limits]
    asked = needs or NO_DEVCONTAINER
    needed, _ = stricter_environments(
        in_force(spec.usual_limits),
        EnvironmentLimits(cpus=asked.cpus, disk=asked.storage_bytes, memory=asked.memory_bytes),
        is_trusted=asked.is_trusted,
    )
    return limits_for(spec.environment_limits, *own, needed, spec.usual_limits)


def _spec(
    plan_id: str,
    spec: PlanSpec,
    workspace: WorkspaceRef,
    *,
    site: Site,
    purpose: str,
    is_writable: bool,
    variables: Mapping[str, str],
) -> EnvironmentSpec:
    path = _inside(site.kind, spec, workspace)
    own = spec.devcontainers.get(site.resource, NO_DEVCONTAINER)
    places = (path, *([own.folder] if own.folder else []))
    shown = [Mount(source=workspace.root, target=p, is_writable=is_writable) for p in places]
    reached = spec.resource(site.resource)
    return EnvironmentSpec(
        plan_id=plan_id,
        purpose=purpose,
        resource=site.resource,
        image=image_of(site, spec),
        runtime=reached.runtime if reached else "",
        user=own.user,
        commands=own.started,
        address=reached.address if reached else "",
        transport=reached.transport if reached else "",
        carries=reached.carries if reached else None,
        workspace=shown[0],
        written=written_of(workspace),
        mounts=(
            *shown[1:],
            *_own_mounts(workspace, path),
            *_included(spec, path),
            *_asked_mounts(spec.mounts, is_writable=is_writable and purpose == "execute"),
        ),
        variables={**_tidy(path, workspace), **own.variables, **spec.variables, **variables},
        limits=limits_of(site, spec),
        path=(f"{path}/.venv/bin", f"{path}/node_modules/.bin"),
        agent_uid=workspace.owner_uid,
        agent_gid=workspace.owner_gid,
    )


def written_of(workspace: WorkspaceRef) -> str:
    """Return the folder of what is written to a tree, apart from its base; empty: the tree."""
    return str(workspace.details.get("upper") or "")


def _own_mounts(workspace: WorkspaceRef, path: str) -> list[Mount]:
    pairs: Sequence[Sequence[str]] = workspace.details.get("mounts", ())
    return [
        Mount(source=host, target=inside.replace("{workspace}", path)) for host, inside in pairs
    ]


def _included(spec: PlanSpec, path: str) -> list[Mount]:
    """Ignored folders of the user's that come along, read-only whatever the purpose."""
    return [
        Mount(source=f"{spec.repository}/{name}", target=f"{path}/{name}") for name in spec.include
    ]


def _asked_mounts(mounts: Sequence[str], *, is_writable: bool) -> list[Mount]:
    """The mounts of `--mount`, resolved and checked: `REAL-PATH:ro|rw`; planning writes to none."""
    made = []
    for text in mounts:
        source, _, mode = text.rpartition(":")
        made.append(Mount(source=source, target=source, is_writable=is_writable and mode == "rw"))
    return made


def _tidy(path: str, workspace: WorkspaceRef) -> Mapping[str, str]:
    """Keep byte code out of the tree, where the kind has a `/tmp` of its own."""
    return {} if path == workspace.root else {"PYTHONPYCACHEPREFIX": PYCACHE}


__all__ = [
    "NO_DEVCONTAINER",
    "general_kind",
    "general_site",
    "general_walls",
    "image_of",
    "limits_of",
    "may_have_setup",
    "specs_for",
    "walls_of",
    "weakest_walls",
    "working_sites",
    "written_of",
]
