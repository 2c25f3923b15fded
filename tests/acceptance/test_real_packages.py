"""Real input: published packages with a bug that a later release mended.

The conversation is scripted by hand but for the edits, which are taken from the two releases.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from acceptance.releases import Release, fetch, packages
from acceptance.undertakings import commit, conversation, ran, require_published

AGENTS = str(Path(sys.executable).with_name("agents"))
SERVICES = {"pypi": ["pypi-index"], "npm": ["npm-index", "node"]}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all, so that what was downloaded once is there."""
    return tmp_path_factory.mktemp("state")


def _run(release: Release, repository: Path, script: Path) -> dict[str, Any]:
    setup: Sequence[str] = [part for command in release.setup for part in ("--setup", command)]
    printed = ran(
        AGENTS,
        "run",
        release.task,
        "--model",
        f"scripted:{script}",
        "--in",
        "process",
        *setup,
        "--validate",
        release.validate,
        "--format",
        "json",
        cwd=repository,
    )
    data: dict[str, Any] = json.loads(printed)["data"]
    return data


def _plan(repository: Path, *words: str) -> dict[str, Any]:
    printed = ran(AGENTS, "plan", *words, "--format", "json", cwd=repository)
    data: dict[str, Any] = json.loads(printed)["data"]
    return data


def _goes_back_and_on(data: dict[str, Any], repository: Path, script: Path) -> None:
    """A fork, a retry and a rollback to the middle come to the same change, proven once more."""
    plan, tree = data["plan_id"], data["changeset"]["tree"]
    assert _plan(repository, "fork", plan)["proven_tree"] == tree

    told = json.loads(script.read_text())
    told["execute"].append({"finish": "It was done already."})
    more = script.with_name("more.json")
    more.write_text(json.dumps(told))
    words = ("retry", plan, "Look whether all is done.", "--model", f"scripted:{more}")
    assert _plan(repository, *words)["proven_tree"] == tree

    marks = _plan(repository, "status", plan)["execution"]["checkpoints"]
    back = _plan(repository, "rollback", plan, marks[len(marks) // 2]["checkpoint_id"], "--yes")
    assert (back["phase"], back["state"]) == ("execute", "queued")
    assert _plan(repository, "resume", plan)["proven_tree"] == tree


@pytest.mark.parametrize(
    "release",
    [
        pytest.param(one, id=one.name, marks=list(map(pytest.mark.service, SERVICES[one.index])))
        for one in packages()
    ],
)
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.service("bubblewrap")
@pytest.mark.service("overlay")
async def test_a_published_bug_is_mended_and_proven_by_the_later_releases_tests(
    release: Release, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATCHYARD_HOME", str(state))
    monkeypatch.setenv("WORKSPACE_DIR", str(state / "workspaces"))
    before, after = await fetch(release, tmp_path / "releases")
    repository, script = tmp_path / "checkout", tmp_path / "script.json"
    commit(release, before, after, repository)
    assert len(ran("git", "ls-files", cwd=repository).splitlines()) >= release.least_files
    steps = release.conversation
    count = conversation(release, steps, repository=repository, after=after, target=script)

    data = _run(release, repository, script)

    (gate,) = data["validation"]
    assert gate["passed"], gate["output"]
    assert gate["before"]["exit_code"] == 1, gate["before"]["output"]
    for name in release.fails:
        assert name in gate["before"]["output"]
    assert data["execution"]["tool_calls"] == len(release.conversation) - 2 + count
    assert data["findings"] == []
    assert ran("git", "status", "--porcelain", cwd=repository) == b""

    _goes_back_and_on(data, repository, script)
    script.unlink()  # the journal has to do
    again = _plan(repository, "replay", data["plan_id"])
    assert again["replay"]["tree"] == data["changeset"]["tree"]

    fresh = tmp_path / "fresh"
    ran("git", "clone", "--quiet", str(repository), str(fresh), cwd=tmp_path)
    patch = ran(AGENTS, "plan", "diff", data["plan_id"], cwd=repository)
    ran("git", "apply", "--binary", cwd=fresh, stdin=patch)
    require_published(release, fresh, after)
