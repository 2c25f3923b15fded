"""Lists for people fit 80 columns, and say settings as they can be written."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from patchyard.cli.cataloguing import WIDTH, brief
from patchyard.cli.config import config
from patchyard.cli.doctor import _line as shown_finding
from patchyard.cli.env import readiness_line
from patchyard.cli.findings import good
from patchyard.cli.mcp import mcp
from patchyard.cli.model import model
from patchyard.cli.role import role
from patchyard.domain.environment import ExecutionEnvironment

SETTINGS = """
analysis: {map_tokens: 2000}
pool: {size: 1}
mcp_servers: {h: {command: python3, args: [/opt/a/server/that/lies/far/below/all/else.py, -v]}}
"""
MODELS = """
roles:
  developer:
    {default_model: large, provider: ollama, fallback_model: small, fallback_provider: ollama}
"""


@pytest.fixture(autouse=True)
def _place(config_folder: Path) -> None:
    (config_folder / "config.yaml").write_text(SETTINGS)
    (config_folder / "models.yaml").write_text(MODELS)
    (config_folder / "roles").mkdir()
    (config_folder / "roles" / "quiet.md").write_text("You are quiet.")
    (config_folder / "roles" / "quiet.yaml").write_text("output: changes\n")


def lines_of(command: click.Command, *words: str) -> list[str]:
    result = CliRunner().invoke(command, words, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout.splitlines()


@pytest.mark.parametrize("command", [model, role, mcp])
def test_a_list_fits_the_usual_width(command: click.Command) -> None:
    lines = lines_of(command, "list")
    assert max(map(len, lines)) <= WIDTH


def test_what_works_stands_in_one_column_also_for_the_longest_name() -> None:
    kinds = [str(kind) for kind in ExecutionEnvironment]
    row = {"is_ready": True, "facts": {}}
    assert len({readiness_line(kind, row).index("works") for kind in kinds}) == 1
    names = [f"environment {kind}" for kind in kinds]
    shown = [shown_finding(good(name, "there")) for name in names]
    assert len({line.index("there") for line in shown}) == 1


def test_prices_are_listed_by_provider_and_a_chain_model_by_model() -> None:
    said = "\n".join(lines_of(model, "list"))
    assert "\n  openai     gpt-4o, gpt-4o-mini," in said
    shown = "\n".join(lines_of(role, "list"))
    assert "\nquiet        changes\n" in shown
    assert f"extends\n{' ' * 23}ollama:large\n{' ' * 23}-> ollama:small\n" in shown


def test_a_key_that_others_can_read_is_not_said_to_be_missing(tmp_path: Path) -> None:
    key = tmp_path / "llm"
    house = f"{{kind: openai-compatible, base_url: 'http://127.0.0.1:1/v1', api_key_file: {key}}}"
    (tmp_path / "config/patchyard/models.yaml").write_text(f"providers: {{house: {house}}}\n")
    assert "llm is not set" in "\n".join(lines_of(model, "list"))
    key.write_text("k-1234\n")
    key.chmod(0o644)
    said = "\n".join(lines_of(model, "list"))
    assert "llm cannot be used: others can read the key in" in said
    assert "chmod 600" in said
    key.chmod(0o600)
    assert "llm is set" in "\n".join(lines_of(model, "list"))


def test_how_a_server_stands_is_shown_before_how_it_is_started() -> None:
    (line,) = lines_of(mcp, "list")
    assert line.startswith("h  not seen yet  python3 /opt/a/server")
    assert line.endswith("…")
    assert (brief("a  b\nc", 5), brief("a  b\nc", 4)) == ("a b c", "a b…")


def test_settings_are_shown_as_they_are_written_also_where_they_say_the_default() -> None:
    said = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines_of(config, "show")}
    assert said["analysis"] == "{map_tokens: 2000}"
    assert [said[f"pool.{part}"] for part in ("size", "total")] == ["1", "4 (default)"]
    args = "args: [/opt/a/server/that/lies/far/below/all/else.py, -v]"
    assert said["mcp_servers"] == f"{{h: {{command: python3, {args}}}}}"
    (whole,) = ["\n".join(lines_of(config, "show", "--format", "json"))]
    settings = json.loads(whole)["data"]["settings"]
    assert settings["analysis"]["value"] == {"map_tokens": 2000}
