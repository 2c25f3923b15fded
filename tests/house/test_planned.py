"""README names all that is planned and not there, and nothing that is there."""

import re

from patchyard.cli.main import COMMANDS
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.registry import ACTORS, ENVIRONMENTS
from tree import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PLANNED = README.partition("## Planned, not there")[2].partition("\n## ")[0]
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
