"""What messages and help tell people to type is there to be typed."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from patchyard.cli.main import agents
from tree import files

TOLD = re.compile(r"`((?:agents |--)[^`]*)`")
#: Said to come with a later version, in the same breath (A14).
LATER: set[str] = {"agents resource add devcontainer-instance NAME --path ."}
OTHERS = {"--cap-add", "--security-opt"}  # of a container engine


def _texts(path: Path) -> Iterator[str]:
    """Each text of a module in one piece, docstrings aside; what is put in later is an X."""
    passed: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr):
            passed.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            passed |= {id(part) for part in node.values}
            parts = (p.value if isinstance(p, ast.Constant) else "X" for p in node.values)
            yield "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and id(node) not in passed:
            yield str(node.value)


def _told() -> Iterator[str]:
    for path in files("src/patchyard/*.py"):
        for text in _texts(path):
            yield from (" ".join(line.split()) for line in TOLD.findall(text))


def _commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _commands(found)


def _options(commands: Iterator[click.Command]) -> set[str]:
    return {option for each in commands for p in each.params for option in p.opts}


def _named(line: str) -> click.Command:
    """The command that a line names. Fails where there is no such subcommand."""
    command: click.Command = agents
    for word in line.split()[1:]:
        if not isinstance(command, click.Group):
            break
        found = command.get_command(click.Context(command), word)
        assert found is not None, f"there is no {word!r} in `{line}`"
        command = found
    return command


@pytest.mark.parametrize("line", sorted(set(_told()) - LATER))
def test_every_command_and_option_that_is_named_is_there(line: str) -> None:
    wanted = set(re.findall(r"(?<!\S)--[a-z][a-z-]*", line))
    if line.startswith("agents "):
        known = _options(iter([_named(line)]))
    else:
        known = _options(_commands(agents))
    assert wanted - known - OTHERS == set()
