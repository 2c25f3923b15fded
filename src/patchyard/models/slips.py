"""The ways in which a model is sloppy, as pure functions from the right call to what it writes.

Each takes a source of chance and the right call, and returns the reply in its place, or None where
that kind of slip has nothing to do with such a call.
"""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from patchyard.models.scripted import ScriptedReply


@dataclass(frozen=True, kw_only=True)
class RightCall:
    """What a careful model would do next."""

    name: str
    arguments: Mapping[str, Any]
    workspace: str  # absolute path of the work tree


Slip = Callable[[random.Random, RightCall], ScriptedReply | None]

FOREIGN = ("/repo", "/workspace", "/app", "/testbed", "/home/user/project", "/mnt/data", "C:\\src")
EDITORS = ("vim", "nano", "emacs -nw", "vi", "less", "more", "ed")
INTERPRETERS = ("python3", "python3 -i", "bash -i", "sqlite3", "node", "bc", "top", "git add -p")
REBASES = ("git rebase -i HEAD~{n}", "git commit --amend", "git commit", "git add -i")
PROMPTS = (
    "read -p 'Continue? ' answer && echo {w} $answer",
    'python3 -c "input({w!r}); print({n})"',
    "cat > {w}.txt",
    "rm -i {w}; echo {n}",
    "select x in {w} no; do echo $x; break; done",
    "ssh-keygen -f ./{w} && echo {n}",
)
ENDLESS = ("sleep {n}", "tail -f /dev/null", "while true; do sleep 0.05; done", "yes > /dev/null")
FLOODS = (
    "head -c {size} /dev/zero | tr '\\0' {letter}",
    "seq 1 {lines}",
    'python3 -c "print({letter!r} * {size})"',
    "yes {word} | head -n {lines}",
)
SORRY = (
    "I apologise for the confusion. {0} should be changed, I believe.",
    "I'm sorry, as a language model I cannot open {0} directly.",
    "Sure! First I will look at {0}, and then I will fix the problem. Let me know if that is fine!",
    "Here is the fixed code:\n```\n{1}\n```\nHope that helps with {0}!",
    "Could you please show me the contents of {0}?",
    "You're right, my mistake. The issue in {0} is resolved now.",
)
WORDS = ("amber", "birch", "cobalt", "delta", "ember", "fjord", "garnet", "hazel", "indigo", "jade")
OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "read_file": ("readFile", "open_file", "view", "cat", "functions.read_file", "read"),
    "search_replace": ("str_replace_editor", "edit_file", "searchReplace", "replace_in_file"),
    "write_file": ("create_file", "writeFile", "save_file", "write"),
    "execute_command": ("bash", "run_shell", "executeCommand", "terminal", "run_command"),
    "finish": ("done", "complete", "attempt_completion", "submit"),
}
OTHER_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "path": ("file_path", "filePath", "filename", "target_file", "file"),
    "old_string": ("old_str", "oldString", "old_text", "search"),
    "new_string": ("new_str", "newString", "new_text", "replace"),
    "command": ("cmd", "command_line", "shell_command", "script"),
    "content": ("contents", "text", "file_text"),
    "summary": ("message", "result"),
}


def _subject(right: RightCall) -> str:
    return str(right.arguments.get("path") or right.arguments.get("command") or right.name)


def _call(name: str, arguments: Mapping[str, Any] | str, text: str = "") -> ScriptedReply:
    return ScriptedReply(text=text, calls=((name, arguments),))


def line_numbers(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """Line numbers of a listing pasted into the text that is to be replaced."""
    if "old_string" not in right.arguments:
        return None
    form = chance.choice(("{n}\t{l}", "{n}: {l}", "{n:>5} | {l}", "L{n}: {l}", "{n:04d} {l}"))
    first = chance.randint(1, 400)
    lines = str(right.arguments["old_string"]).split("\n")
    numbered = "\n".join(form.format(n=first + i, l=line) for i, line in enumerate(lines))
    return _call(right.name, {**right.arguments, "old_string": numbered})


def wrong_space(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """White space that differs from the file's."""
    if "old_string" not in right.arguments:
        return None
    old = str(right.arguments["old_string"])
    changed = chance.choice(
        (
            old.replace("    ", "\t"),
            "  " + old,
            old.replace("\n", "\r\n") + " ",
            old.replace(" = ", "="),
            old.replace("\n", "  \n") + "\n\n",
        )
    )
    return None if changed == old else _call(right.name, {**right.arguments, "old_string": changed})


def absolute_path(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """The absolute path of the work tree in front of a relative one."""
    if "path" not in right.arguments:
        return None
    scheme = chance.choice(("", "file://", "./", "`"))
    path = right.arguments["path"]
    whole = path if scheme == "./" else f"{right.workspace}/{path}"
    return _call(
        right.name, {**right.arguments, "path": f"{scheme}{whole}{scheme if scheme == '`' else ''}"}
    )


def foreign_path(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """A path of another machine."""
    if "path" not in right.arguments:
        return None
    where = chance.choice((*FOREIGN, "../..", "~", "/etc/.."))
    return _call(right.name, {**right.arguments, "path": f"{where}/{right.arguments['path']}"})


def missing_path(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """A path that is nearly right."""
    path = str(right.arguments.get("path", ""))
    if not path:
        return None
    spot = chance.randrange(len(path))
    wrong = chance.choice(
        (path[:spot] + path[spot + 1 :], path + ".bak", f"src/{path}", path.upper())
    )
    return None if wrong == path else _call(right.name, {**right.arguments, "path": wrong})


def json_in_a_string(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """Arguments encoded twice, or wrapped once more."""
    text = json.dumps(dict(right.arguments))
    wrapped = json.dumps({chance.choice(("arguments", "input", "parameters")): text})
    return _call(
        right.name, chance.choice((json.dumps(text), json.dumps(json.dumps(text)), wrapped))
    )


def nearly_json(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """Arguments that are Python, fenced, followed by talk, or with a comma too many."""
    text = json.dumps(dict(right.arguments))
    word = chance.choice(WORDS)
    return _call(
        right.name,
        chance.choice(
            (
                repr(dict(right.arguments)),
                f"```json\n{text}\n```",
                f"{text}\n\nThis call will handle {word}.",
                f"Arguments for {word}: {text}",
                f"{text[:-1]}, }}",
                f"[{text}]",
            )
        ),
    )


def broken_json(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """Arguments that end in the middle, or that nobody can read."""
    text = json.dumps(dict(right.arguments))
    cut = text[: chance.randint(1, max(1, len(text) - 2))]
    return _call(right.name, chance.choice((cut, text + text, f"<args>{cut}", "path=" + cut[1:])))


def two_calls(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """More calls than the one that was due, in one answer."""
    own = (right.name, dict(right.arguments))
    more: list[tuple[str, dict[str, Any]]] = [
        chance.choice((("list_directory", {}), ("search_files", {"query": chance.choice(WORDS)})))
        for _ in range(chance.randint(1, 4))
    ]
    return ScriptedReply(calls=(*more, own) if chance.random() < 0.7 else (own, own))


def interactive(chance: random.Random, _right: RightCall) -> ScriptedReply | None:
    """A program that wants a terminal and a person."""
    command = chance.choice(
        (
            f"{chance.choice(EDITORS)} {chance.choice(WORDS)}.py",
            chance.choice(INTERPRETERS),
            chance.choice(REBASES).format(n=chance.randint(1, 9)),
        )
    )
    return _call("execute_command", {"command": command, "timeout_s": 0.3})


def prompting(chance: random.Random, _right: RightCall) -> ScriptedReply | None:
    """A program that asks on standard input."""
    command = chance.choice(PROMPTS).format(w=chance.choice(WORDS), n=chance.randint(1, 99))
    return _call("execute_command", {"command": command, "timeout_s": "0.3"})


def never_ending(chance: random.Random, _right: RightCall) -> ScriptedReply | None:
    """A command that does not come to an end."""
    command = chance.choice(ENDLESS).format(n=chance.randint(1000, 9999))
    return _call("execute_command", {"command": command, "timeout_s": 0.1})


def flood(chance: random.Random, _right: RightCall) -> ScriptedReply | None:
    """A command that prints about five megabytes."""
    command = chance.choice(FLOODS).format(
        size=chance.randint(4_900_000, 5_200_000),
        lines=chance.randint(700_000, 800_000),
        letter=chance.choice("abcxyz"),
        word=chance.choice(WORDS),
    )
    return _call("execute_command", {"command": command})


def apology(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """Words and no call."""
    body = str(right.arguments.get("new_string") or right.arguments.get("content") or "pass")
    return ScriptedReply(text=chance.choice(SORRY).format(_subject(right), body))


def silence(_chance: random.Random, _right: RightCall) -> ScriptedReply | None:
    """Nothing at all."""
    return ScriptedReply()


def too_early(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """The end, before anything was done."""
    if right.name == "finish":
        return None
    summary = chance.choice(("All done!", f"Fixed {_subject(right)}.", "", "Task complete ✅"))
    return _call("finish", {"summary": summary} if summary else {})


def unknown_tool(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """A tool of some other system."""
    names = OTHER_NAMES.get(right.name)
    return _call(chance.choice(names), right.arguments) if names else None


def other_arguments(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """The argument names of some other system, or one that is not there."""
    renamed = {
        chance.choice(OTHER_ARGUMENTS.get(key, (key,))): value
        for key, value in right.arguments.items()
    }
    extra = chance.choice(({}, {"explanation": "because"}, {"recursive": True}, {"mode": "w"}))
    return _call(right.name, {**renamed, **extra})


def missing_arguments(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """One argument less, or one of another type."""
    if not right.arguments:
        return None
    name = chance.choice(sorted(right.arguments))
    less = {key: value for key, value in right.arguments.items() if key != name}
    value = chance.choice((None, [right.arguments[name]], {"value": right.arguments[name]}, True))
    return _call(right.name, chance.choice((less, {**less, name: value})))


def call_in_text(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """The call written into the text."""
    body = json.dumps({"name": right.name, "arguments": dict(right.arguments)})
    form = chance.choice(("<tool_call>\n{}\n</tool_call>", "```json\n{}\n```", "{}", "Calling: {}"))
    return ScriptedReply(text=form.format(body) if form == "{}" else f"Now.\n{form.format(body)}")


def whole_file(chance: random.Random, right: RightCall) -> ScriptedReply | None:
    """A text to replace that stands in the file more than once, or is empty or the same."""
    if "old_string" not in right.arguments:
        return None
    new = right.arguments["new_string"]
    old = chance.choice(("", new, "return", "first", "\n", "def "))
    return _call(right.name, {**right.arguments, "old_string": old})


def repetition(_chance: random.Random, _right: RightCall) -> ScriptedReply | None:
    """The same look once more, whatever it showed."""
    return _call("list_directory", {})


SLIPS: Mapping[str, Slip] = {
    slip.__name__: slip
    for slip in (
        *(line_numbers, wrong_space, absolute_path, foreign_path, missing_path, json_in_a_string),
        *(nearly_json, broken_json, two_calls, interactive, prompting, never_ending, flood),
        *(apology, silence, too_early, unknown_tool, other_arguments, missing_arguments),
        *(call_in_text, whole_file, repetition),
    )
}

# Slips that still are the right call; whoever takes them as they are meant goes on.
MEANT = frozenset(
    {
        *("absolute_path", "json_in_a_string", "nearly_json", "two_calls", "other_arguments"),
        "call_in_text",
    }
)

__all__ = [
    "MEANT",
    "SLIPS",
    "RightCall",
    "Slip",
    "absolute_path",
    "apology",
    "broken_json",
    "call_in_text",
    "flood",
    "foreign_path",
    "interactive",
    "json_in_a_string",
    "line_numbers",
    "missing_arguments",
    "missing_path",
    "nearly_json",
    "never_ending",
    "other_arguments",
    "prompting",
    "repetition",
    "silence",
    "too_early",
    "two_calls",
    "unknown_tool",
    "whole_file",
    "wrong_space",
]
