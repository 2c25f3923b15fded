"""What a terminal shows: a line that moves and never wraps, colours where they are known."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.worksite import Worksite, call, done
from patchyard.cli.live import ECHOED
from terminals import CTRL_C, at_a_terminal

pytestmark = pytest.mark.service("bubblewrap")

AGENTS = [sys.executable, "-m", "patchyard"]
UP = "\x1b[1A"  # one line up


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Worksite]:
    made = Worksite.make(tmp_path, {"a.txt": "one\n"})
    yield made
    asyncio.run(made.clear())


def shown(site: Worksite, *words: str, columns: int = 100, **variables: str) -> str:
    environ = {**site.environ, "TERM": "xterm", **variables}
    words = (*AGENTS, *words)
    with at_a_terminal(words, cwd=site.repository, environ=environ, columns=columns) as terminal:
        return terminal.rest()


def run(site: Worksite, *, columns: int = 100, **variables: str) -> str:
    model = site.script([call("write_file", path="a.txt", content="two\n"), done()])
    words = ("run", "x", "--model", model, "--validate", "sleep 0.3")
    return shown(site, *words, columns=columns, **variables)


def test_the_moving_line_is_one_line_on_a_narrow_terminal(site: Worksite) -> None:
    text = run(site, columns=30)
    assert "\u2026" in text
    assert text.count(UP) <= 1  # when it is taken away


def test_an_interrupt_wraps_no_moving_line_and_names_the_plan(site: Worksite) -> None:
    model = site.script([call("execute_command", command="sleep 50", timeout_s=60), done()])
    words = (*AGENTS, "run", "x", "--model", model)
    environ = {**site.environ, "TERM": "xterm"}
    with at_a_terminal(words, cwd=site.repository, environ=environ, columns=60) as terminal:
        plan_id = terminal.wait_for("sleep 50").partition("plan ")[2].partition(" ")[0]
        terminal.wait_for("waits for execute_")
        terminal.type(CTRL_C)
        text = terminal.rest()
    assert f"`agents plan resume {plan_id}` carries it on" in text
    frames = [part for part in re.sub(r"\x1b\[[0-9;?]*[mhl]", "", text).split("\r") if "…" in part]
    lines = [frame.removeprefix("\x1b[2K").partition("^C")[0].strip() for frame in frames]
    assert lines
    assert max(map(len, lines)) <= 60 - ECHOED


def test_a_terminal_that_knows_no_colours_gets_none(site: Worksite) -> None:
    text = run(site, TERM="dumb")
    assert "execute/complete" in text
    assert "\x1b[" not in text


def test_a_patch_is_coloured_for_people_and_data_for_programs(site: Worksite) -> None:
    run(site)
    assert "\x1b[32m" in shown(site, "plan", "diff")
    assert "\x1b[" not in shown(site, "plan", "diff", NO_COLOR="1")
    body = json.loads(shown(site, "plan", "diff", "--format", "json"))
    assert "+two" in body["data"]["patch"]
