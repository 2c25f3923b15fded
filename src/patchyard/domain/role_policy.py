"""How a role is read from plain data: its policy, and the prompt beside it."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import UnknownName, quoted
from patchyard.domain.faults import Fault, check_keys
from patchyard.domain.gate_settings import Gates, gates_of
from patchyard.domain.gates import Gate
from patchyard.domain.limit_settings import LimitSettings, limits_of
from patchyard.domain.mcp import PREFIX
from patchyard.domain.role import MAX_ASKS, WRITING, Output, Role
from patchyard.domain.texts import text_of, texts_of

NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
KINDS = tuple(str(kind) for kind in ExecutionEnvironment)
PROMPT_CHARS = 6_000  # of a role's prompt
WORD_CHARS = 40  # of one capability or field of expertise: other machines are told them
MOST_WORDS = 20
PROVEN = (*WRITING, Output.FINDINGS)  # by gates; those of a reviewer measure coverage
WRITES = ("delete_file", "search_replace", "write_file")  # tools whose only use is to write
_OF_SERVER = re.compile(r"mcp__(?!_)(?:(?!__).)+(?:__.+)?")
NEVER_EMPTY = {  # an empty list would mean all
    "environments": "leave it out for any; a role without any environment cannot work",
    "tools": "leave it out for all; a role without any tool cannot work",
}
KEYS = (
    *("capabilities", "environments", "expertise", "gates", "limits", "max_asks", "may_ask"),
    *("output", "purpose", "title", "tools"),
)


def parse_role(
    name: str,
    policy: Any,
    prompt: str,
    *,
    tools: Collection[str],
    roles: Collection[str] = (),
    source: str = "",
) -> Role:
    """Return the role that a policy's plain data and a prompt describe.

    `tools` are the names there are; those of other servers (`mcp__...`) are taken as they stand.
    `roles` are the roles there are, as far as one can be asked.
    Raises Fault with the place in the policy.
    """
    if not NAME.fullmatch(name):
        hint = "small letters, digits and dashes, a letter first"
        raise Fault((), f"{name!r} is no name of a role", hint=hint)
    body = check_keys({} if policy is None else policy, (), KEYS)
    if len(prompt) > PROMPT_CHARS:
        raise Fault((), f"the prompt has {len(prompt):,} characters, at most {PROMPT_CHARS:,}")
    output = _output(body)
    return Role(
        name=name,
        title=text_of(body, "title", (), default=name.replace("-", " ").capitalize()),
        purpose=text_of(body, "purpose", (), default=""),
        prompt=prompt.strip(),
        output=output,
        tools=_usable(_known(body, "tools", "tool", tools), output),
        environments=_known(body, "environments", "kind of environment", KINDS),
        limits=_limits(body),
        gates=_gates(body, output),
        capabilities=_words(body, "capabilities"),
        expertise=_words(body, "expertise"),
        may_ask=_askable(name, body, roles),
        max_asks=_count(body, "max_asks", default=MAX_ASKS),
        source=source,
    )


def checked_role(role: Role, *, tools: Collection[str], roles: Collection[str] = ()) -> Role:
    """Return a role that a program has made, held to the rules of a policy. Raises Fault.

    Its gates are records, or plain data as in a policy.
    """
    policy = {
        "capabilities": _listed(role.capabilities),
        "environments": _listed(role.environments) or None,
        "expertise": _listed(role.expertise),
        "limits": {key: value for key, value in vars(role.limits).items() if value is not None},
        "max_asks": role.max_asks,
        "may_ask": _listed(role.may_ask),
        "output": str(role.output),
        "purpose": role.purpose,
        "title": role.title or None,
        "tools": _listed(role.tools) or None,
    }
    said = {key: value for key, value in policy.items() if value is not None}
    made = parse_role(role.name, said, role.prompt, tools=tools, roles=roles)
    stated: Mapping[str, Any] = role.gates
    plain = {name: each for name, each in stated.items() if not isinstance(each, Gate | None)}
    read = _gates({"gates": plain}, made.output) if stated else {}
    gates = {name: read.get(name, each) for name, each in stated.items()}
    for name, gate in gates.items():
        if gate is not None and (gate.name != name or not (gate.command or gate.is_scan)):
            hint = "`Gate(name=NAME, command=...)` stands under NAME"
            raise Fault(("gates", name), "is no whole gate of that name", hint=hint)
    return replace(made, gates=gates, source=role.source or "the program")


def _listed(said: Any) -> Any:
    """Return a tuple as a policy has it; anything else is for the policy's reader to refuse."""
    return list(said) if isinstance(said, tuple) else said


def _output(body: Mapping[str, Any]) -> Output:
    said = text_of(body, "output", (), default=str(Output.CHANGES))
    if said not in list(Output):
        raise Fault.at(("output",), UnknownName.among("output", said, Output))
    return Output(said)


def _limits(body: Mapping[str, Any]) -> LimitSettings:
    said = body.get("limits")
    return LimitSettings() if said is None else limits_of(said, ("limits",))


def _gates(body: Mapping[str, Any], output: Output) -> Gates:
    said = body.get("gates")
    if said is None:
        return {}
    if output not in PROVEN:
        raise Fault(
            ("gates",),
            f"a role that gives {output} leaves nothing that a gate could prove",
            hint=f"take them out, or say `output: {Output.CHANGES}`",
        )
    return gates_of(said, ("gates",))


def _usable(tools: tuple[str, ...], output: Output) -> tuple[str, ...]:
    for number, name in enumerate(tools):
        if name in WRITES and output not in WRITING:
            raise Fault(
                ("tools", number),
                f"a role that gives {output} cannot write, and {name} does nothing else",
                hint=f"take it out, or say `output: {Output.CHANGES}`",
            )
    return tools


def _known(body: Mapping[str, Any], key: str, word: str, known: Collection[str]) -> tuple[str, ...]:
    names = texts_of(body, key) or ()
    if key in NEVER_EMPTY and key in body and not names:
        raise Fault((key,), "the list is empty", hint=NEVER_EMPTY[key])
    for number, name in enumerate(names):
        is_foreign = key == "tools" and name.startswith(PREFIX)
        if is_foreign and not _OF_SERVER.fullmatch(name):
            hint = "write mcp__SERVER for all tools of a server, or mcp__SERVER__TOOL"
            raise Fault((key, number), f"{name!r} names no server's tools", hint=hint)
        if name not in set(known) and not is_foreign:
            raise Fault.at((key, number), UnknownName.among(word, name, known))
        if name in names[:number]:
            raise Fault((key, number), f"{name!r} stands twice")
    return names


def _askable(name: str, body: Mapping[str, Any], roles: Collection[str]) -> tuple[str, ...]:
    for number, each in enumerate(texts_of(body, "may_ask") or ()):
        if each == name:
            raise Fault(("may_ask", number), "a role cannot ask itself", hint="take it out")
    return _known(body, "may_ask", "role", [each for each in roles if each != name])


def _words(body: Mapping[str, Any], key: str) -> tuple[str, ...]:
    words = texts_of(body, key) or ()
    if len(words) > MOST_WORDS:
        raise Fault((key,), f"there are {len(words)}, at most {MOST_WORDS}")
    for number, word in enumerate(words):
        if not 0 < len(word) <= WORD_CHARS or not word.isprintable():
            hint = f"1 to {WORD_CHARS} characters in one line"
            raise Fault((key, number), f"{quoted(word)} is no short word", hint=hint)
        if word in words[:number]:
            raise Fault((key, number), f"{word!r} stands twice")
    return words


def _count(body: Mapping[str, Any], key: str, *, default: int) -> int:
    value = body.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Fault((key,), "must be a whole number, 0 or more")
    return value


__all__ = [
    "KEYS",
    "KINDS",
    "MOST_WORDS",
    "NAME",
    "NEVER_EMPTY",
    "PROMPT_CHARS",
    "WORD_CHARS",
    "WRITES",
    "checked_role",
    "parse_role",
]
