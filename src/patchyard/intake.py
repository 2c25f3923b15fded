"""From what was asked (options, project, configuration, action) to the spec of a plan."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from patchyard.clients.glimpse import Glimpse, glimpse
from patchyard.configuration import (
    REPOSITORY_FILE,
    Configuration,
    RepositoryFiles,
    configure,
    repository_files,
)
from patchyard.domain.action import Action, Filled, Rule, use
from patchyard.domain.analysis_settings import MapSettings
from patchyard.domain.automation import known_profile
from patchyard.domain.checkpoint import DEFAULT_TRIGGERS, Trigger
from patchyard.domain.detection import detect
from patchyard.domain.environment import Priority
from patchyard.domain.environment_limits import of_words
from patchyard.domain.errors import UnknownName, UsageError, quoted
from patchyard.domain.holdings import Holdings
from patchyard.domain.invariant import Invariant, Scope
from patchyard.domain.limit_settings import LimitSettings
from patchyard.domain.network_settings import NetworkSettings
from patchyard.domain.plan import AUTO, PlanSpec
from patchyard.domain.reach import looks_secret
from patchyard.domain.remotes import cure_for, looks_cloned
from patchyard.domain.resource import Resource
from patchyard.domain.role import Role
from patchyard.domain.safety import SafetyProfile
from patchyard.domain.settings import DESTINATIONS, SHARES, Settings
from patchyard.intake_bounds import (
    adjustable_in,
    gates_in_force,
    limits_in_force,
    lowered,
    rounds_in_force,
    with_undecided,
)
from patchyard.intake_devcontainers import discovered_in, with_devcontainers
from patchyard.intake_mounts import includes_of, mounts_of, require_mounts_fit
from patchyard.intake_names import require_names
from patchyard.intake_network import asked_network, granted
from patchyard.intake_places import Wish, placed, with_image
from patchyard.intake_roles import (
    cast,
    is_typed,
    lacking_servers,
    require_role_fits,
    role_folder,
    with_askable,
)
from patchyard.intake_setup import require_setup_runs
from patchyard.roles.library import role_names

N = TypeVar("N", int, float)

UNPROVEN = (
    "no validation command found: the result will be unproven; name one with --validate COMMAND"
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What was typed: the options of one `run` or `plan use`. None: not said."""

    task: str = ""
    repository: str = "."
    ref: str | None = None
    agent: str | None = None
    role: str | None = None
    charter: Role | None = None  # the role itself, checked; None: it is found by its name
    model: str | None = None
    kind: str | None = None
    own: Resource | None = None  # a place of this plan alone, which `kind` names
    environment_priority: Priority | None = None
    setup: tuple[str, ...] = ()  # empty: not said; one empty text: none
    setup_share: str | None = None
    validate: tuple[str, ...] = ()
    apply_to: str | None = None
    variables: tuple[str, ...] = ()  # NAME=VALUE, or NAME to take it from the environment
    mounts: tuple[str, ...] = ()
    allow_paths: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    network: NetworkSettings | None = None  # checked; in the place of `allow_hosts`
    secrets: tuple[str, ...] = ()  # NAME@HOST
    usd: float | None = None
    tokens: int | None = None
    steps: int | None = None
    seconds: float | None = None
    limits: tuple[str, ...] = ()  # NAME=VALUE, of the environments
    rounds: int | None = None
    record_to: str | None = None
    automation_profile: str | None = None
    requires_changes: bool = False
    has_run_default: bool = True  # `run` takes `process` when nothing is set at any level (F2.16)
    project: str | None = None  # None: the one of this checkout, when there is one
    action: Action | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Intake:
    """A plan's spec, and what a person should be told before it begins."""

    spec: PlanSpec
    notes: tuple[str, ...] = ()  # such as which commands were detected
    warnings: tuple[str, ...] = ()  # such as settings that were passed over


def spec_of(asked: Asked, environ: Mapping[str, str]) -> PlanSpec:
    """Return the plan that `asked` describes where nothing is held beside it."""
    return take_in(asked, environ, Holdings()).spec


def take_in(asked: Asked, environ: Mapping[str, str], holdings: Holdings) -> Intake:
    """Return the plan that `asked` describes, with all that is set for it.

    Raises UsageError naming what does not fit, ContainerUnavailableError (A14).
    """
    project = holdings.project(asked.project) if asked.project else None
    top = _top(project.repository if project else asked.repository)
    project = project or holdings.project_of(str(top))
    is_checkout = (top / ".git").exists()
    sight = glimpse(top, asked.ref) if is_checkout else None
    files = repository_files(sight) if sight else RepositoryFiles()
    trust = holdings.trust_in(str(top), files.digest, files.marks)
    linked = project.linked(holdings.resources) if project else ()
    settings = configure(
        environ,
        options=_options(asked),
        project=project,
        repository=files,
        trust=trust,
        linked=linked,
    )
    roles = role_names(role_folder(environ))
    require_names(settings, str(top), holdings=holdings, project=project, roles=roles)
    filled = use(asked.action, asked.arguments) if asked.action else None
    spec = _spec(asked, environ, settings, filled, top)
    spec = replace(spec, models=files.models() if trust.is_given else "")
    bounded = lowered(settings, spec.charter)
    wish = Wish(
        place=asked.kind,
        priority=asked.environment_priority,
        has_run_default=asked.has_run_default,
        action=asked.action,
        discovered=discovered_in(holdings, str(top)),
        own=asked.own,
    )
    spec = placed(spec, wish, settings, environ, project=project, holdings=holdings)
    require_mounts_fit(spec, settings)
    spec = granted(spec, settings, environ)
    spec, notes = _with_commands(spec, settings, filled, sight)
    spec, said = with_image(spec, settings, sight)
    spec, more = with_devcontainers(
        spec,
        sight,
        trust=trust,
        environ=environ,
        says_setup=_said("setup", settings, filled) is not None,
    )
    spec = replace(spec, invariants=_invariants(settings, holdings, spec, filled))
    require_role_fits(spec)
    spec = with_askable(spec, environ)
    warnings = (*settings.warnings, *lacking_servers(spec))
    unrun = require_setup_runs(spec, settings)
    return Intake(spec=spec, notes=(*bounded, *notes, *said, *more, *unrun), warnings=warnings)


def _top(place: str) -> Path:
    try:
        start = Path(os.path.realpath(Path(place).expanduser()))
        is_there = start.is_dir()
    except (OSError, RuntimeError, ValueError):  # a name too long, a user unknown, a null byte
        is_there = False
    if not is_there:
        said = place if place.isprintable() else repr(place)
        again = "`agents project create NAME --repo URL` clones it again, under a name of its own"
        hint = again if looks_cloned(place) else cure_for(place)
        raise UsageError(f"there is no folder {said}", hint=hint)
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return folder
    return start


def _options(asked: Asked) -> Settings:
    if asked.apply_to is not None and asked.apply_to not in DESTINATIONS:
        raise UnknownName.among("destination", asked.apply_to, DESTINATIONS)
    if asked.setup_share is not None and asked.setup_share not in SHARES:
        raise UnknownName.among("way to share setup", asked.setup_share, SHARES)
    least: tuple[tuple[float | None, str], ...] = (
        (asked.usd, "--budget-usd"),
        (asked.tokens, "--max-tokens"),
        (asked.steps, "--max-steps"),
        (asked.rounds, "--rounds"),
    )
    for value, name in least:
        if value is not None and not value >= 0:
            raise UsageError(f"{name} must be 0 or more, not {value}")
    limits = LimitSettings(
        budget_usd=asked.usd,
        max_tokens=asked.tokens,
        max_steps=asked.steps,
        timeout=asked.seconds,
        rounds=asked.rounds,
    )
    network, secrets = asked_network(asked.allow_hosts, asked.secrets)
    return Settings(
        agent=asked.agent or None,
        allow_paths=asked.allow_paths or None,
        apply=asked.apply_to,
        automation_profile=asked.automation_profile or None,
        environment_limits=of_words(asked.limits) if asked.limits else None,
        limits=limits,
        model=asked.model or None,
        mounts=asked.mounts or None,
        network=asked.network or network,
        role=asked.role or None,
        secrets=secrets,
        setup=_commands(asked.setup),
        setup_share=asked.setup_share,
        validate=_commands(asked.validate),
    )


def _commands(given: tuple[str, ...]) -> tuple[str, ...] | None:
    return tuple(text for text in given if text.strip()) if given else None


def _spec(
    asked: Asked,
    environ: Mapping[str, str],
    settings: Configuration,
    filled: Filled | None,
    top: Path,
) -> PlanSpec:
    action = asked.action
    steps = action.steps if action else ()
    agent = settings.value("agent") or ("recipe" if steps else "model")
    own_variables = settings.value("variables") or {}
    safety = settings.value("safety") or SafetyProfile()
    of_action = action.role if action else ""
    charter, team = cast(settings, of_action, environ, own=asked.charter)
    charter, *others = with_undecided((charter, *team), settings, filled)
    limits = limits_in_force(settings, agent, safety, charter)
    return PlanSpec(
        task=filled.task if filled else asked.task,
        repository=str(top),
        ref=asked.ref,
        action=action.name if action else None,
        arguments=filled.arguments if filled else {},
        steps=steps,
        definition_of_done=filled.definition_of_done if filled else (),
        agent=agent,
        model=_found_again(settings.value("model") or ""),
        role=charter.name,
        charter=charter,
        team=tuple(others),
        is_role_given=bool(
            settings.value("role") or settings.value("roles") or of_action or asked.charter
        ),
        limits=limits,
        adjustable=adjustable_in(settings, limits) if agent == "model" else (),
        rounds=rounds_in_force(settings, charter),
        apply_to=settings.value("apply") or "none",
        requires_changes=asked.requires_changes,
        setup_share=settings.value("setup_share") or "tree",
        allow_paths=settings.value("allow_paths") or (),
        protected_paths=settings.value("protected_paths") or (),
        include=includes_of(settings, str(top)),
        variables={**own_variables, **_variables(asked.variables, environ)},
        mounts=mounts_of(settings, environ, str(top)),
        mcp_servers=tuple((settings.value("mcp_servers") or {}).values()),
        automation_profile=_profile(settings, action),
        checkpoints=_triggers(settings.value("checkpoints")),
        approvals=settings.value("approvals") or (),
        safety=safety,
        map_tokens=(settings.value("analysis") or MapSettings()).map_tokens,
        record_to=str(Path(asked.record_to).absolute()) if asked.record_to else None,
    )


def _found_again(model: str) -> str:
    """Let a model that is a file be found from any folder that the plan is resumed in."""
    from patchyard.models.providers import FILES  # noqa: PLC0415 - not for `--help`

    provider, _, name = model.partition(":")
    return f"{provider}:{Path(name).absolute()}" if provider in FILES and name else model


def _profile(settings: Configuration, action: Action | None) -> str:
    """Options and variables win over the action, the action over projects and files (B+)."""
    setting = settings.values["automation_profile"]
    own = action.automation_profile if action else ""
    return known_profile((own if own and not is_typed(setting) else setting.value) or AUTO)


def _triggers(said: tuple[Trigger, ...] | None) -> tuple[Trigger, ...]:
    return DEFAULT_TRIGGERS if said is None else said


def _with_commands(
    spec: PlanSpec, settings: Configuration, filled: Filled | None, sight: Glimpse | None
) -> tuple[PlanSpec, tuple[str, ...]]:
    """Fill in setup and validation: said, the action's, or detected when neither is said."""
    setup, validate = _said("setup", settings, filled), _said("validate", settings, filled)
    spec = replace(spec, gates=gates_in_force(settings, filled, spec.charter))
    if setup is not None or validate is not None or sight is None:
        return replace(spec, setup=setup or (), validate=validate or ()), ()
    seen: Glimpse = sight

    def text(name: str) -> str | None:
        data = seen.read(name)
        return None if data is None else data.decode("utf-8", "replace")

    found = detect(text, seen.names(), seen.names)
    notes = []
    if found.setup:
        notes.append(f"setup found by {found.because}: {' && '.join(found.setup)}")
    if any(not gate.is_scan for gate in spec.gates):
        return replace(spec, setup=found.setup), tuple(notes)
    if found.validate:
        off = "`--validate ''` switches it off"
        notes.append(f"proof found by {found.because}: {' && '.join(found.validate)} ({off})")
    elif spec.charter.is_writing:
        notes.append(UNPROVEN)
    return replace(spec, setup=found.setup, validate=found.validate), tuple(notes)


def _said(name: str, settings: Configuration, filled: Filled | None) -> Any:
    """Options and variables win over the action, the action over projects and files."""
    setting = settings.values[name]
    own = getattr(filled, name) if filled else None
    return setting.value if own is None or is_typed(setting) else own


def _invariants(
    settings: Configuration, holdings: Holdings, spec: PlanSpec, filled: Filled | None
) -> tuple[Invariant, ...]:
    """Return those of all scopes (B10); a repository's own are its project's."""
    held = holdings.invariants_for(project=spec.project, action=spec.action)
    configured = []
    for layer in settings.layers:
        rules: tuple[Rule, ...] = layer.settings.invariants or ()
        is_repository = layer.origin == REPOSITORY_FILE
        scope = Scope.PROJECT if is_repository else Scope.GLOBAL
        prefix = "repository" if is_repository else "config"
        configured += [
            Invariant(
                invariant_id=f"{prefix}:{number}",
                text=rule.text,
                scope=scope,
                target=(spec.project or "") if is_repository else "",
                check=rule.check,
            )
            for number, rule in enumerate(rules)
        ]
    return (*held, *configured, *(filled.invariants if filled else ()))


def _variables(given: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    variables = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            said = f"--env {quoted(text)} is not NAME or NAME=VALUE"
            raise UsageError(said, hint="NAME is of letters, digits and `_`: `--env LANG=C`")
        if not equals and name not in environ:
            said = f"--env {quoted(name)}: there is no such variable here"
            raise UsageError(said, hint="set and export it, or say NAME=VALUE")
        value = value if equals else environ[name]
        if looks_secret(name, value):
            raise UsageError(
                f"--env {name} looks like a credential, and the agent could read it",
                hint="`--secret NAME@HOST` lets a gateway use it at that host, unread by the agent",
            )
        variables[name] = value
    return variables


__all__ = [
    "DESTINATIONS",
    "UNPROVEN",
    "Asked",
    "Intake",
    "spec_of",
    "take_in",
]
