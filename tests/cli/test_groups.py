"""Groups of commands: what is not there is named, with what there is."""

import click
import pytest
from click.testing import CliRunner

from patchyard.cli.main import agents

GROUPS = {
    (): "plna",
    ("plan",): "stauts",
    ("action",): "shwo",
    ("config",): "shwo",
    ("env",): "chekc",
    ("invariant",): "lsit",
    ("mcp",): "chekc",
    ("model",): "chekc",
    ("project",): "shwo",
    ("project", "context"): "shwo",
    ("resource",): "lsit",
    ("role",): "lsit",
}


def commands(group: click.Group, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], click.Group]:
    found = {path: group}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            found |= commands(command, (*path, name))
    return found


@pytest.mark.parametrize("path", GROUPS)
def test_an_unknown_command_names_the_nearest_and_all_there_are(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(agents, [*path, GROUPS[path]])
    assert (result.exit_code, "Did you mean" in result.output) == (2, True), result.output
    for name in commands(agents)[path].list_commands(click.Context(agents)):
        assert name in result.output


def test_every_group_is_asked() -> None:
    assert set(commands(agents)) == set(GROUPS)
