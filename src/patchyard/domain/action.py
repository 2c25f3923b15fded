"""Actions: reusable templates of plans, with arguments, and how one is read from plain data."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchyard.domain.automation import known_profile
from patchyard.domain.environment import place_named
from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.faults import Fault, Place, check_keys, kind_of
from patchyard.domain.gate_settings import Gates, gates_of
from patchyard.domain.invariant import Invariant, Scope
from patchyard.domain.preference import (
    Preference,
    ToolPreference,
    ToolSetting,
    environments_of,
    preferences_of,
)
from patchyard.domain.recipe import parse_steps
from patchyard.domain.template import fill, fill_command, names
from patchyard.domain.texts import text_of, texts_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")


KEYS = (
    "arguments",
    "automation_profile",
    "definition_of_done",
    "description",
    "gates",
    "goal",
    "invariants",
    "name",
    "role",
    "setup",
    "steps",
    "tools",
    "validate",
)


@dataclass(frozen=True, kw_only=True)
class Argument:
    """What an action asks its user for."""

    required: bool = False
    default: str = ""
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """An invariant as an action or a configuration writes it."""

    text: str
    check: str | None = None


@dataclass(frozen=True, kw_only=True)
class Action:
    """A template of plans. Its texts are templates over its arguments."""

    name: str
    description: str = ""
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    goal: str = ""  # for a model
    steps: tuple[Mapping[str, Any], ...] = ()  # for the recipe actor
    definition_of_done: tuple[str, ...] = ()
    invariants: tuple[Rule, ...] = ()
    role: str = ""
    automation_profile: str = ""  # empty: not said
    setup: tuple[str, ...] | None = None  # None: not said
    validate: tuple[str, ...] | None = None
    gates: Gates | None = None  # their commands are no templates
    tools: Mapping[str, str] = field(default_factory=dict)  # where each of these runs
    preferences: Mapping[str, ToolPreference] = field(default_factory=dict)  # of these tools
    source: str = ""  # the file it was read from, or "shipped"


@dataclass(frozen=True, kw_only=True)
class Filled:
    """An action with its arguments filled in: what a plan is made of."""

    task: str
    arguments: Mapping[str, str]
    definition_of_done: tuple[str, ...]
    invariants: tuple[Invariant, ...]
    setup: tuple[str, ...] | None
    validate: tuple[str, ...] | None
    gates: Gates | None = None


def parse_action(value: Any, *, source: str = "") -> Action:
    """Return the action that plain data describes. Raises Fault with the place."""
    body = check_keys(value, (), KEYS)
    name = text_of(body, "name", ())
    if not NAME.fullmatch(name):
        raise Fault(("name",), f"{name!r} is no name", hint="letters, digits, dots and dashes")
    arguments = _arguments(body.get("arguments", {}))
    steps = body.get("steps", [])
    if "steps" in body:
        parse_steps(steps, tuple(arguments))
    if not steps and not body.get("goal"):
        raise Fault((), "an action needs a `goal` (for a model) or `steps` (for the recipe actor)")
    tools = tools_of(body.get("tools", {}), ("tools",))
    action = Action(
        name=name,
        description=text_of(body, "description", (), default=""),
        arguments=arguments,
        goal=text_of(body, "goal", (), default=""),
        steps=tuple(steps),
        definition_of_done=texts_of(body, "definition_of_done") or (),
        invariants=rules_of(body.get("invariants", []), ("invariants",)),
        role=text_of(body, "role", (), default=""),
        automation_profile=profile_at(body.get("automation_profile", ""), ("automation_profile",)),
        setup=texts_of(body, "setup"),
        validate=texts_of(body, "validate"),
        gates=gates_of(body["gates"], ("gates",)) if "gates" in body else None,
        tools=environments_of(tools),
        preferences=preferences_of(tools),
        source=source,
    )
    _check_placeholders(action)
    return action


def rules_of(value: Any, place: Place) -> tuple[Rule, ...]:
    """Return invariants: each a text, or a mapping of `text` and `check`."""
    if not isinstance(value, list):
        raise Fault(place, f"must be a list, not {kind_of(value)}")
    rules = []
    for number, item in enumerate(value):
        here = (*place, number)
        body = (
            {"text": item} if isinstance(item, str) else check_keys(item, here, ("check", "text"))
        )
        check = text_of(body, "check", here, default="") or None
        rules.append(Rule(text=text_of(body, "text", here), check=check))
    return tuple(rules)


def tools_of(value: Any, place: Place) -> Mapping[str, ToolSetting]:
    """Return what is said of each named tool (tool level, A+ #879).

    `{NAME: {execution_environment: E, preference: none|required|preferred|specific,
    target_resource: R}}`. Raises Fault.
    """
    if not isinstance(value, Mapping):
        raise Fault(place, f"must be a mapping of tool names, not {kind_of(value)}")
    return {name: _tool(entry, (*place, name)) for name, entry in value.items()}


def _tool(entry: Any, here: Place) -> ToolSetting:
    body = check_keys(entry, here, ("execution_environment", "preference", "target_resource"))
    said = text_of(body, "preference", here, default=str(Preference.NONE))
    target = text_of(body, "target_resource", here, default="")
    if said not in set(Preference):
        listed = ", ".join(Preference)
        raise Fault((*here, "preference"), f"{said!r} is none of {listed}")
    mode = Preference(said)
    if mode == Preference.SPECIFIC and not target:
        raise Fault(here, "`specific` needs `target_resource`, the name of a linked resource")
    if mode != Preference.SPECIFIC and target:
        raise Fault((*here, "target_resource"), "it counts with `preference: specific` alone")
    own = None
    if "execution_environment" in body:
        if mode == Preference.SPECIFIC:
            raise Fault(
                (*here, "execution_environment"), "`specific` names where in `target_resource`"
            )
        own = place_at(body["execution_environment"], (*here, "execution_environment"))
    preference = ToolPreference(mode=mode, target_resource=target)
    return ToolSetting(execution_environment=own, preference=preference)


def profile_at(value: Any, place: Place) -> str:
    """Return the automation profile that `value` names; empty text is none. Raises Fault."""
    if not isinstance(value, str):
        raise Fault(place, f"must be the name of a profile, not {kind_of(value)}")
    try:
        return value and known_profile(value)
    except UnknownName as error:
        raise Fault.at(place, error) from error


def place_at(value: Any, place: Place) -> str:
    """Return the environment that `value` names, by kind or resource. Raises Fault (A15)."""
    if not isinstance(value, str):
        raise Fault(place, f"must be the name of an environment, not {kind_of(value)}")
    try:
        return place_named(value)
    except UnknownName as error:
        raise Fault.at(place, error) from error


def _arguments(value: Any) -> Mapping[str, Argument]:
    if not isinstance(value, Mapping):
        raise Fault(("arguments",), f"must be a mapping of names, not {kind_of(value)}")
    found = {}
    for name, entry in value.items():
        place = ("arguments", name)
        if not ARGUMENT.fullmatch(name) or name == "file":
            raise Fault(place, f"{name!r} cannot name an argument")
        body = check_keys(entry or {}, place, ("default", "description", "required"))
        required = body.get("required", False)
        if not isinstance(required, bool):
            raise Fault((*place, "required"), f"must be true or false, not {kind_of(required)}")
        found[name] = Argument(
            required=required,
            default=text_of(body, "default", place, default=""),
            description=text_of(body, "description", place, default=""),
        )
    return found


def _check_placeholders(action: Action) -> None:
    checks = [(("invariants", n), rule.check or "") for n, rule in enumerate(action.invariants)]
    texts: list[tuple[Place, str]] = [(("goal",), action.goal), *checks]
    for key, listed in (
        ("definition_of_done", action.definition_of_done),
        ("setup", action.setup or ()),
        ("validate", action.validate or ()),
    ):
        texts += [((key, number), text) for number, text in enumerate(listed)]
    for place, text in texts:
        for name in names(text):
            if name not in action.arguments:
                known = ", ".join(sorted(action.arguments)) or "none"
                raise Fault(
                    place,
                    f"{{{name}}} is no argument of this action",
                    hint=f"known: {known}; write {{{{{name}}}}} for the text itself",
                )


def use(action: Action, given: Mapping[str, str]) -> Filled:
    """Fill the arguments in. Raises UsageError for one that is missing or not known."""
    for name in given:
        if name not in action.arguments:
            raise UnknownName.among(f"argument of {action.name}", name, action.arguments)
    missing = [n for n, a in action.arguments.items() if a.required and n not in given]
    if missing:
        raise UsageError(
            f"the action {action.name} needs {', '.join(missing)}",
            hint=" ".join(f"--arg {name}=..." for name in missing),
        )
    values = {name: given.get(name, arg.default) for name, arg in action.arguments.items()}
    task = fill(action.goal, values) or action.description or f"carry out {action.name}"
    return Filled(
        task=task,
        arguments=values,
        definition_of_done=tuple(fill(text, values) for text in action.definition_of_done),
        invariants=tuple(
            Invariant(
                invariant_id=f"action:{number}",
                text=rule.text,
                scope=Scope.ACTION,
                target=action.name,
                check=fill_command(rule.check, values) if rule.check else None,
            )
            for number, rule in enumerate(action.invariants)
        ),
        setup=_commands(action.setup, values),
        validate=_commands(action.validate, values),
        gates=action.gates,
    )


def _commands(templates: Sequence[str] | None, values: Mapping[str, str]) -> tuple[str, ...] | None:
    if templates is None:
        return None
    return tuple(fill_command(template, values) for template in templates)


__all__ = [
    "ARGUMENT",
    "KEYS",
    "NAME",
    "Action",
    "Argument",
    "Filled",
    "Rule",
    "parse_action",
    "place_at",
    "profile_at",
    "rules_of",
    "tools_of",
    "use",
]
