"""What counts where no setting says anything, as `config show` tells people."""

from patchyard.cli.values import NONE, shown
from patchyard.domain.analysis_settings import MapSettings
from patchyard.domain.budget import UNPRICED_TOKENS
from patchyard.domain.checkpoint import DEFAULT_TRIGGERS
from patchyard.domain.effective_parts import effective_parts
from patchyard.domain.environment_limits import (
    KEY,
    MEASURES,
    EnvironmentLimits,
    given,
    in_force,
)
from patchyard.domain.languages import BASE, IMAGES
from patchyard.domain.network import NetworkGrant
from patchyard.domain.plan import AUTO
from patchyard.domain.settings import SHARES
from patchyard.domain.sizes import shown_bytes

_NETWORK = NetworkGrant()
_LIMITS = given(in_force(EnvironmentLimits()))
_SHOWN = ("memory", "disk", "processes")  # of them; `agents env check KIND` shows all
UNBOUNDED = "no limit"


def _parts(record: str) -> str:
    """Return the parts of a record as they count where none of them is said."""
    parts = effective_parts(())[record].items()
    return ", ".join(f"{name}: {shown(f'{record}.{name}', part.value)}" for name, part in parts)


USUAL = {
    "agent": "model, or recipe for an action with steps",
    "allow_paths": NONE,
    "analysis": f"{{map_tokens: {MapSettings().map_tokens}}}",
    "apply": NONE,
    "approvals": NONE,
    "automation_profile": AUTO,
    "budget": "no shared limit",
    "clone_secrets": NONE,
    "checkpoints": ", ".join(DEFAULT_TRIGGERS),
    KEY: ", ".join([*(f"{name}: {MEASURES[name].show(_LIMITS[name])}" for name in _SHOWN), "…"]),
    "execution_env_discovery": "false",
    "execution_env_priority": "the chain with four levels",
    "execution_environment": "process for `run`, host for `plan use`",
    "gates": NONE,
    "images": "by the language of the repository",
    **{f"images.{language or BASE}": image for language, image in IMAGES.items()},
    "include": NONE,
    "invariants": NONE,
    **{f"{KEY}.{name}": UNBOUNDED for name in MEASURES},
    "keep": _parts("keep"),
    "limits.max_calls": UNBOUNDED,
    "limits.max_tokens": f"no limit; {UNPRICED_TOKENS:,} for a model without a known price",
    "mcp_servers": NONE,
    "model": "found when a plan begins; `agents model check` names it",
    "mounts": NONE,
    "network.allow_hosts": NONE,
    "network.max_call_bytes": shown_bytes(_NETWORK.max_call_bytes),
    "network.max_connections": str(_NETWORK.max_connections),
    "network.max_plan_bytes": shown_bytes(_NETWORK.max_plan_bytes),
    "network.planning": "false",
    "pool": _parts("pool"),
    "protected_paths": "the list of this version alone",
    "role": "developer, or that of the action",
    "roles": "the role alone",
    "safety": "no bounds beside the profile's",
    "safety.categories": "all",
    "safety.max_cost_per_plan": UNBOUNDED,
    "safety.max_total_cost": UNBOUNDED,
    "secrets": NONE,
    "setup": "found by the repository's files",
    "setup_share": SHARES[0],
    "slots": UNBOUNDED,
    "slots.per_model": UNBOUNDED,
    "slots.per_project": UNBOUNDED,
    "tools": "as the plan",
    "validate": "found by the repository's files",
    "variables": NONE,
}
"""By the name of a setting, or of a part, that has no value where nothing is said."""

__all__ = ["USUAL"]
