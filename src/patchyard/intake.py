"""From what was asked (options, project, configuration) to the spec of a plan."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from patchyard.domain.budget import PlanLimits
from patchyard.domain.environment import ExecutionEnvironment, parse_kind
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.plan import PlanSpec

N = TypeVar("N", int, float)

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DESTINATIONS = ("none", "worktree", "branch", "merge", "patch")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of one `run`, as typed."""

    task: str
    repository: str = "."
    ref: str | None = None
    agent: str = "model"
    role: str = "developer"
    model: str = ""
    kind: str | None = None
    setup: tuple[str, ...] = ()
    validate: tuple[str, ...] = ()
    apply_to: str = "none"
    variables: tuple[str, ...] = ()  # NAME=VALUE, or NAME to take it from the environment
    mounts: tuple[str, ...] = ()
    allow_paths: tuple[str, ...] = ()
    usd: float | None = 5.0
    tokens: int | None = None
    steps: int | None = 200
    seconds: float | None = 3600.0
    rounds: int = 3
    record_to: str | None = None
    automation_profile: str = "auto"
    requires_changes: bool = False


def spec_of(asked: Asked, environ: Mapping[str, str]) -> PlanSpec:
    """Return the plan that `asked` describes. Raises UsageError naming what does not fit."""
    if asked.apply_to not in DESTINATIONS:
        raise UnknownName.among("destination", asked.apply_to, DESTINATIONS)
    kind, source = _kind(asked, environ)
    return PlanSpec(
        task=asked.task,
        repository=str(Path(asked.repository).expanduser().absolute()),
        ref=asked.ref,
        agent=asked.agent,
        model=asked.model,
        role=asked.role,
        environment=kind,
        environment_source=source,
        setup=tuple(asked.setup),
        validate=tuple(asked.validate),
        limits=_limits(asked),
        rounds=_at_least(asked.rounds, 0, "--rounds"),
        apply_to=asked.apply_to,
        requires_changes=asked.requires_changes,
        allow_paths=tuple(asked.allow_paths),
        variables=_variables(asked.variables, environ),
        mounts=tuple(asked.mounts),
        automation_profile=asked.automation_profile,
        record_to=asked.record_to,
    )


def _kind(asked: Asked, environ: Mapping[str, str]) -> tuple[ExecutionEnvironment, str]:
    """The plan level: an option, AGENT_MODE, or the default of `run` (F2.16)."""
    if asked.kind:
        return parse_kind(asked.kind), "--in"
    if environ.get("AGENT_MODE"):
        return parse_kind(environ["AGENT_MODE"]), "AGENT_MODE"
    return ExecutionEnvironment.PROCESS, "run-default"


def _limits(asked: Asked) -> PlanLimits:
    for value, name in (
        (asked.usd, "--budget-usd"),
        (asked.tokens, "--max-tokens"),
        (asked.steps, "--max-steps"),
    ):
        if value is not None:
            _at_least(value, 0, name)
    return PlanLimits(usd=asked.usd, tokens=asked.tokens, steps=asked.steps, seconds=asked.seconds)


def _at_least(value: N, least: int, name: str) -> N:
    if value < least:
        raise UsageError(f"{name} must be {least} or more, not {value}")
    return value


def _variables(given: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    variables = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(f"--env {text!r} is not NAME or NAME=VALUE")
        if not equals and name not in environ:
            raise UsageError(f"--env {name}: there is no such variable here")
        value = value if equals else environ[name]
        if looks_secret(name, value):
            raise UsageError(
                f"--env {name} looks like a credential, and the agent could read it",
                hint=f"use `--secret {name}@HOST`: it is used for that host and never shown",
            )
        variables[name] = value
    return variables


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a credential, by its name or its value."""
    if re.search(r"(?i)(token|secret|passw|api_?key|credential|private_?key)", name):
        return True
    known = r"(gh[pousr]_|github_pat_|glpat-|sk-[A-Za-z0-9]|xox[abp]-|AKIA[0-9A-Z]{12}|-----BEGIN )"
    return re.match(known, value) is not None


def parse_duration(text: str) -> float:
    """Return the seconds of `90s`, `30m`, `1h`. Raises UsageError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if match is None or float(match[1]) <= 0:
        raise UsageError(f"{text!r} is not a duration", hint="write it like 90s, 30m or 1h")
    return float(match[1]) * UNITS[match[2] or "s"]


__all__ = ["DESTINATIONS", "UNITS", "Asked", "looks_secret", "parse_duration", "spec_of"]
