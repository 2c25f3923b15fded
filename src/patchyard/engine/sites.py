"""What each environment of a plan is started with: workspace, mounts, variables, limits."""

from collections.abc import Mapping, Sequence

from patchyard.contracts.workspace import WorkspaceRef
from patchyard.domain.environment import EnvironmentSpec, ExecutionEnvironment, Mount
from patchyard.domain.plan import PlanSpec
from patchyard.domain.resource import container_of
from patchyard.domain.routing import route_of
from patchyard.engine.equipment import Equipment

PYCACHE = "/tmp/pycache"  # noqa: S108 - inside, where /tmp is its own


def kinds_of(spec: PlanSpec) -> tuple[ExecutionEnvironment, ...]:
    """Return every kind that a call of this plan could be routed to, resolved before it runs."""
    return tuple(dict.fromkeys((general_kind(spec), *spec.tool_environments.values())))


def general_kind(spec: PlanSpec) -> ExecutionEnvironment:
    """Return the kind of a call whose tool has no setting of its own."""
    return route_of(spec).kind


def specs_for(
    equipment: Equipment,
    plan_id: str,
    spec: PlanSpec,
    workspace: WorkspaceRef,
    *,
    purpose: str,
    is_writable: bool,
    variables: Mapping[str, str] | None = None,
) -> Mapping[ExecutionEnvironment, EnvironmentSpec]:
    """Return what to start each kind with, for one purpose of one plan."""
    return {
        kind: _spec(
            plan_id,
            spec,
            workspace,
            kind=kind,
            purpose=purpose,
            is_writable=is_writable,
            variables=variables or {},
        )
        for kind in kinds_of(spec)
        if kind in equipment.environments
    }


def _inside(kind: ExecutionEnvironment, spec: PlanSpec, workspace: WorkspaceRef) -> str:
    """The one path: that of the source checkout, where the kind can make it so."""
    return workspace.root if kind == ExecutionEnvironment.HOST else spec.repository


def image_of(kind: ExecutionEnvironment, spec: PlanSpec) -> str:
    """Return the image of the linked container that `container` means (F2.17)."""
    is_container = kind == ExecutionEnvironment.CONTAINER
    return container_of(spec.resources).image if is_container else ""


def _spec(
    plan_id: str,
    spec: PlanSpec,
    workspace: WorkspaceRef,
    *,
    kind: ExecutionEnvironment,
    purpose: str,
    is_writable: bool,
    variables: Mapping[str, str],
) -> EnvironmentSpec:
    path = _inside(kind, spec, workspace)
    return EnvironmentSpec(
        plan_id=plan_id,
        purpose=purpose,
        image=image_of(kind, spec),
        workspace=Mount(source=workspace.root, target=path, is_writable=is_writable),
        mounts=(
            *_own_mounts(workspace, path),
            *_included(spec, path),
            *_asked_mounts(spec.mounts, is_writable=is_writable and purpose == "execute"),
        ),
        variables={**_tidy(path, workspace), **spec.variables, **variables},
        path=(f"{path}/.venv/bin", f"{path}/node_modules/.bin"),
        agent_uid=workspace.owner_uid,
        agent_gid=workspace.owner_gid,
    )


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


__all__ = ["general_kind", "image_of", "kinds_of", "specs_for"]
