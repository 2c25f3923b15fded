"""What fields mean that an event or another journalled record leaves out.

Up to 0.6 a field was not written where it had its default, so what an older journal says hangs on
the defaults of the version that wrote it. They stand here and are never edited: a default of a
record may change, what is journalled means what it meant. All versions up to 0.6 wrote format 1,
and no default changed between them. Since then every field is written; what is left out was written
before there was such a field. A new field with a default gets its line here, with the value that
all plans before it are to be read with.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from patchyard.domain.codec import Meanings, from_json

T = TypeVar("T")

_NOTHING = {
    "Action": "setup validate gates",
    "Assessment": "kind complexity",
    "Body": "value digest",
    "Change": "old_path old_mode mode old_blob blob call_id",
    "Decision": "confidence",
    "Devcontainer": "build memory_bytes cpus storage_bytes extension",
    "EnvironmentEnded": "usage",
    "EnvironmentLimits": (
        "connections cpu_time cpus disk file_size memory network open_files output processes "
        "temporary wall"
    ),
    "Gate": "threshold",
    "Invariant": "check",
    "InvariantChecked": "exit_code",
    "LimitSettings": "budget_usd max_tokens max_steps max_calls timeout rounds",
    "Limits": "cpus cpu_seconds wall_s network_bytes connections",
    "McpServer": "tools",
    "ModelLent": "usd",
    "NetworkSettings": "allow_hosts planning max_connections max_call_bytes max_plan_bytes",
    "PlanLimits": "tokens calls",
    "PlanSpec": (
        "ref project action environment environment_priority project_environment "
        "project_priority resource_environment discovered record_to lineage"
    ),
    "Project": (
        "execution_environment execution_env_priority execution_env_discovery setup validate "
        "gates protected_paths network secrets limits environment_limits budget "
        "automation_profile mcp_servers"
    ),
    "Proposal": "confidence",
    "Receipt": "commit reference",
    "Reserved": "usd",
    "Resource": "carries execution_environment",
    "Rule": "check",
    "SafetyProfile": "categories max_cost_per_plan max_total_cost",
    "TaskAssessed": "kind complexity limits",
    "ToolCallRequested": "kind",
    "ToolCallSettled": "error usage limit",
    "Turn": "usage usd assessment",
    "TurnTaken": "usd",
    "Usage": (
        "cpu_s memory_bytes processes written_bytes output_bytes wall_s network_bytes connections"
    ),
    "Validated": "kind",
    "messages.Usage": "usd",
}
_NO_TEXT = {
    "Action": "description goal role automation_profile source",
    "ApplyIntended": "name",
    "ApprovalAsked": "shown why",
    "ApprovalUsed": "call_id",
    "Approved": "by",
    "Argument": "default description",
    "Attempt": "host method path reason",
    "Base": "author excludes attributes",
    "Build": "context target",
    "CallUndone": "reason",
    "CheckpointMade": "previous call_id tool",
    "ColleagueHeard": "verdict",
    "CoverageMeasured": "problem",
    "Decision": "rationale context",
    "Devcontainer": "image folder user",
    "EnvironmentEnded": "reason",
    "EnvironmentHandle": "resource server",
    "Gate": "command report cure",
    "Invariant": "target",
    "InvariantChecked": "output",
    "Lineage": "checkpoint_id",
    "McpServer": "command url",
    "ModelSwitched": "code kind message",
    "Moved": "reason",
    "NetworkGrant": "repository repository_near",
    "Option": "reason",
    "Paused": "reason",
    "PhaseFailed": "hint",
    "PlanSpec": "model models subject image",
    "Proposal": "rationale",
    "Receipt": "journal_head",
    "Rejected": "by reason",
    "Released": "reason",
    "Resource": "location image runtime config parent address transport",
    "ResourceMoved": "cause",
    "Reverted": "reason findings by",
    "Review": "summary",
    "ReviewFinding": "rule",
    "Reviewed": "subject",
    "Role": "title purpose prompt source",
    "RoleAnswered": "error",
    "RoleAsked": "question",
    "RolledBack": "reason",
    "StepEnded": "came_to",
    "TaskAnalysed": "problem",
    "TaskAssessed": "role",
    "ToolCallRequested": "level reason resource server checkpoint_id",
    "ToolPreference": "target_resource",
    "Turn": "text summary failure sent_back model",
    "TurnRequested": "note",
    "TurnTaken": "guidance model",
    "Wanted": "problem",
}
_NO_ITEMS = {
    "Action": "steps definition_of_done invariants",
    "ApplyIntended": "paths",
    "Base": "withheld left_out",
    "BaseRecorded": "left_out",
    "ChangeSet": "changes findings",
    "ChangedCoverage": "files unreported settings",
    "ColleagueHeard": "added",
    "Context": "languages tests frameworks guides",
    "CoverageMeasured": "commands",
    "Decision": "alternatives",
    "DesignRecord": "options",
    "Devcontainer": "created started features passed_over",
    "EnvironmentEnded": "left_out",
    "FileCoverage": "uncovered",
    "Gate": "from_base",
    "McpServer": "args read_only_tools allow",
    "NetworkGrant": "hosts gateways secrets",
    "Ownership": "paths",
    "Placed": "resources",
    "PlanSpec": (
        "steps definition_of_done team askable resources setup validate gates invariants "
        "allow_paths protected_paths include mounts mcp_servers approvals adjustable"
    ),
    "Project": "resources",
    "Proposal": "alternatives",
    "Receipt": "touched",
    "RemovalProven": "noticed",
    "Review": "findings",
    "Role": "tools environments capabilities expertise may_ask",
    "SetupFinished": "commands",
    "Taken": "slots",
    "TaskAnalysed": "owners",
    "TaskAnalysis": "because requirements named",
    "ToolCallSettled": "paths",
    "Turn": "calls proposals",
    "Usage": "claimed",
    "Validated": "touched held silenced",
}
_NO_ENTRIES = {
    "Action": "arguments tools preferences",
    "Base": "filtered submodules conversions",
    "Build": "arguments",
    "Devcontainer": "variables",
    "EnvironmentHandle": "details",
    "Extension": "metadata",
    "Gate": "mapping",
    "McpServer": "env",
    "PhaseFailed": "details",
    "PlanSpec": "arguments tool_environments tool_preferences devcontainers variables",
    "Receipt": "undo usage",
    "Role": "gates",
    "TaskAnalysis": "figures",
    "TrustGranted": "marks",
    "Turn": "product body",
    "WorkspaceRef": "details",
}
_ZERO = {
    "Attempt": "port status up down",
    "Base": "uncommitted",
    "Body": "size",
    "Change": "added removed",
    "CheckpointMade": "files stored",
    "ColleagueCounted": "usd input_tokens output_tokens steps calls",
    "ColleagueHeard": "usd input_tokens output_tokens steps calls",
    "Context": "files bytes test_files",
    "CoverageMeasured": "changed measured covered",
    "Guide": "cut",
    "Guided": "word",
    "LimitsChanged": "word",
    "ModelLent": "input_tokens output_tokens",
    "NetworkUsed": "missed",
    "ResourceMoved": "at",
    "Reviewed": "findings",
    "RoleAnswered": "usd input_tokens output_tokens steps calls",
    "RoleAsked": "changes",
    "SetupFinished": "requests received",
    "TaskAnalysed": "symbols left_out seconds",
    "ToolCallSettled": "started ended",
    "Traffic": "attempts refused up down",
    "TurnRequested": "reserved_tokens told",
    "TurnTaken": "input_tokens output_tokens",
    "messages.Usage": "input_tokens output_tokens cached_tokens written_tokens",
}
_FALSE = {
    "Applied": "is_partial",
    "Argument": "required",
    "Change": "is_binary",
    "CheckpointMade": "is_fuzzy",
    "Devcontainer": "is_trusted",
    "EnvironmentStarted": "is_from_pool",
    "Extension": "is_fetching",
    "Gate": "is_tests",
    "Invariant": "non_overridable",
    "McpServer": "idempotent",
    "NetworkGrant": "planning",
    "PlanSpec": "has_discovery requires_changes",
    "Project": "is_implicit",
    "RolledBack": "is_repeat",
    "SafetyProfile": "require_sandbox require_human_approval",
    "TaskAnalysed": "is_cached",
    "ToolCallSettled": "is_reattached",
    "Turn": "is_final can_go_on has_more",
    "TurnTaken": "asked_model",
    "Unapplied": "is_begun",
    "messages.Usage": "is_estimated",
}
_OWN: Mapping[str, Mapping[str, Any]] = {
    "ColleagueCounted": {"is_priced": True},
    "ColleagueHeard": {"is_priced": True},
    "CoverageMeasured": {"body": {}},
    "DesignRecorded": {"body": {}},
    "Finding": {"blocks_apply": True},
    "Gate": {
        "reads": "exit",
        "scope": "all",
        "is_required": True,
        "timeout_s": 600.0,
        "severity": "note",
        "exit_codes": [0, 1],
        "repeats": 1,
    },
    "Guided": {"source": "prompt"},
    "Limits": {
        "memory_bytes": 4294967296,
        "processes": 1024,
        "open_files": 4096,
        "file_bytes": 8589934592,
        "disk_bytes": 17179869184,
        "temporary_bytes": 2147483648,
        "output_bytes": 16777216,
    },
    "McpServer": {"timeout_s": 60.0},
    "NetworkGrant": {
        "max_connections": 64,
        "max_call_bytes": 1073741824,
        "max_plan_bytes": 10737418240,
    },
    "NetworkUsed": {"attempts": {}},
    "PhaseFailed": {"exit_code": 1},
    "PlanLimits": {"usd": 5.0, "steps": 200, "seconds": 3600.0},
    "PlanSpec": {
        "agent": "model",
        "role": "developer",
        "is_role_given": True,
        "charter": {"name": "developer"},
        "environment_source": "plan",
        "default_environment": "host",
        "setup_share": "tree",
        "limits": {},
        "environment_limits": {},
        "usual_limits": {},
        "rounds": 3,
        "apply_to": "none",
        "network": {},
        "checkpoints": ["before_tool_execute", "on_error"],
        "automation_profile": "auto",
        "safety": {},
        "map_tokens": 2000,
    },
    "RemovalProven": {"results": {}},
    "Resource": {"limits": {}},
    "Reviewed": {"body": {}},
    "Role": {"output": "changes", "limits": {}, "max_asks": 5},
    "RoleAnswered": {"is_priced": True},
    "SafetyProfile": {
        "allow_unsafe_tools": True,
        "require_checkpoints": True,
        "max_retries_per_step": 3,
    },
    "TaskAnalysed": {"context": {}, "guidance": {}, "map": {}},
    "TaskAnalysis": {"kind": "feature", "complexity": "low"},
    "ToolCallSettled": {"data": {}},
    "ToolPreference": {"mode": "none"},
    "Validated": {"has_run": True},
}


def _of_1() -> Mapping[str, Mapping[str, Any]]:
    """Return the table of format 1: JSON values by record and field."""
    alike: tuple[tuple[Any, Mapping[str, str]], ...] = (
        (None, _NOTHING),
        ("", _NO_TEXT),
        ([], _NO_ITEMS),
        ({}, _NO_ENTRIES),
        (0, _ZERO),
        (False, _FALSE),
    )
    table: dict[str, dict[str, Any]] = {name: dict(own) for name, own in _OWN.items()}
    for value, records in alike:
        for name, fields in records.items():
            table.setdefault(name, {}).update(dict.fromkeys(fields.split(), value))
    return table


FORMAT = 1  # of all that was journalled up to 0.6, and of what any version may read
PACKED = 2  # as 1, of events with a packed body, which readers of 1 do not know
FORMATS: Mapping[int, Meanings] = dict.fromkeys((FORMAT, PACKED), Meanings(_of_1()))  # by `schema`


def restored(record: type[T], body: Any, schema: int = FORMAT) -> T:
    """Build `record` from journalled JSON of the format `schema`, which must be a known one.

    No default of today counts. Raises JournalBroken naming the record and the field that does not
    fit, or that is left out without a known meaning.
    """
    return from_json(record, body, FORMATS[schema])


__all__ = ["FORMAT", "FORMATS", "PACKED", "restored"]
