"""README names all that is planned and not there, and nothing that is there."""

import re

import click
import pytest

from patchyard.cli.main import COMMANDS, agents
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.registry import ACTORS, ENVIRONMENTS
from tree import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PLANNED = README.partition("## Planned, not there")[2].partition("\n## ")[0]
PROMISED = (
    *("acp", "action", "agent", "completion", "config", "continue", "cost", "db", "demo", "disk"),
    *("doctor", "env", "fleet", "forge", "gc", "host", "inbox", "init", "invariant", "mcp"),
    *("model", "plan", "project", "pull-agent", "resource", "review", "role", "run", "serve"),
    *("sidecar", "task", "token", "top", "trust", "try", "worker"),
)
OPTIONS = (
    *(("run", name) for name in ("--agent-login", "--attempts", "--models", "--log-file")),
    *(("run", name) for name in ("--server", "-C", "-m", "-y", "--quiet", "--verbose")),
    *(("run", name) for name in ("--record", "--rounds", "--mount", "--allow-path")),
    *(("plan apply", name) for name in ("--accept", "--to")),
    *(("plan export", name) for name in ("--html", "--to")),
    *(("plan list", name) for name in ("--limit", "--state")),
    *(("plan resume", name) for name in ("--model", "--role", "--dry-run")),
    *(("gc", name) for name in ("--everything", "--dry-run")),
)
REQUIREMENTS = (ROOT / "docs/reference/requirements.md").read_text(encoding="utf-8")


def test_each_kind_that_no_adapter_carries_is_named() -> None:
    lacking = [str(kind) for kind in ExecutionEnvironment if kind not in ENVIRONMENTS]
    named = re.findall(r"kinds? `(\w+)`", PLANNED)
    assert sorted(named) == sorted(lacking)


def test_each_part_that_requirements_wait_for_has_a_row() -> None:
    parts = set(re.findall(r"planned: (\w+)", REQUIREMENTS))
    assert parts
    assert parts <= set(re.findall(r"(?m)^\| (\w+)", PLANNED))


def test_actors_that_are_not_there_are_named() -> None:
    others = ("Codex", "Claude Code", "opencode", "Gemini CLI", "Qwen Code")
    assert [name for name in others if name not in PLANNED] == []
    assert set(ACTORS) == {"model", "recipe"}, "an actor more: does README still call it planned?"


def test_no_command_that_is_there_is_called_planned() -> None:
    named = set(re.findall(r"`agents ([a-z-]+)", PLANNED))
    assert len(named) > len(ACTORS)
    assert named.isdisjoint(COMMANDS)


@pytest.mark.parametrize("name", PROMISED)
def test_a_command_that_is_promised_is_there_or_named_as_planned(name: str) -> None:
    assert (name in COMMANDS) != (f"`agents {name}`" in PLANNED)


def _options(line: str) -> set[str]:
    """The options that a command has, and its parents."""
    command: click.Command | None = agents
    context = click.Context(agents, info_name="agents")
    found = {option for each in agents.params for option in each.opts}
    for word in line.split():
        assert isinstance(command, click.Group)
        command = command.get_command(context, word)
        assert command is not None, line
        found |= {option for each in command.params for option in each.opts}
    return found


@pytest.mark.parametrize(("line", "option"), OPTIONS)
def test_an_option_that_is_promised_is_there_or_named_as_planned(line: str, option: str) -> None:
    named = re.search(rf"`[a-z ]*{option}[ `]", PLANNED) is not None
    assert (option in _options(line)) != named
