"""Real input: published packages with a bug that a later release mended.

The conversation is scripted by hand but for the edits, which are taken from the two releases.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from acceptance.differences import edits, files
from acceptance.releases import Release, fetch, packages

AGENTS = str(Path(sys.executable).with_name("agents"))
IGNORED = (".venv/", "node_modules/", "__pycache__/", "*.egg-info/", ".pytest_cache/")
SERVICES = {"pypi": ["pypi-index"], "npm": ["npm-index", "node"]}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for all, so that what was downloaded once is there."""
    return tmp_path_factory.mktemp("state")


def _ran(*command: str, cwd: Path, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, timeout=500, check=False
    )
    assert done.returncode == 0, (done.stdout[-4000:], done.stderr[-4000:])
    return done.stdout


def _repository(release: Release, before: Path, after: Path, target: Path) -> None:
    """The release with the bug, and the tests of the later one, as a commit."""
    before.rename(target)
    for place in release.tests:
        shutil.rmtree(target / place)
        shutil.copytree(after / place, target / place)
    with (target / ".gitignore").open("a", encoding="utf-8") as ignored:
        ignored.write("\n".join(["", *IGNORED, ""]))
    _ran("git", "init", "--quiet", cwd=target)
    _ran("git", "add", "--all", "--force", ".", cwd=target)
    _ran("git", "commit", "--quiet", "--message", f"{release.name} {release.before}", cwd=target)


def _script(release: Release, repository: Path, after: Path, target: Path) -> int:
    """Write the conversation; the number of edits in it."""
    replies: list[dict[str, Any]] = []
    mended = list(edits(repository, after, release.package, version_file=release.version_file))
    for step in release.conversation:
        if step == "edits":
            calls = [_call(*call) for call in mended]
            replies += [{"text": "Now the change.", "calls": [call]} for call in calls]
        elif "finish" in step:
            replies.append({"finish": step["finish"]})
        else:
            replies.append({"calls": [_call(*step)]})
    note = "Written by hand; the edits are computed from the two releases."
    target.write_text(json.dumps({"note": note, "execute": replies}), encoding="utf-8")
    return len(mended)


def _call(name: str, arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def _run(release: Release, repository: Path, script: Path) -> dict[str, Any]:
    setup: Sequence[str] = [part for command in release.setup for part in ("--setup", command)]
    printed = _ran(
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
    printed = _ran(AGENTS, "plan", *words, "--format", "json", cwd=repository)
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


def _is_as_published(release: Release, mended: Path, published: Path) -> None:
    """The package folder is that of the later release, the version number aside."""
    found, wanted = files(mended / release.package), files(published / release.package)
    assert found.keys() == wanted.keys()
    for name, content in found.items():
        is_version = f"{release.package}/{name}" == release.version_file
        became = content.replace(release.before.encode(), release.after.encode())
        assert (became if is_version else content) == wanted[name], name


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
    _repository(release, before, after, repository)
    assert len(_ran("git", "ls-files", cwd=repository).splitlines()) >= release.least_files
    count = _script(release, repository, after, script)

    data = _run(release, repository, script)

    (gate,) = data["validation"]
    assert gate["passed"], gate["output"]
    assert gate["before"]["exit_code"] == 1, gate["before"]["output"]
    for name in release.fails:
        assert name in gate["before"]["output"]
    assert data["execution"]["tool_calls"] == len(release.conversation) - 2 + count
    assert data["findings"] == []
    assert _ran("git", "status", "--porcelain", cwd=repository) == b""

    _goes_back_and_on(data, repository, script)
    script.unlink()  # the journal has to do
    again = _plan(repository, "replay", data["plan_id"])
    assert again["replay"]["tree"] == data["changeset"]["tree"]

    fresh = tmp_path / "fresh"
    _ran("git", "clone", "--quiet", str(repository), str(fresh), cwd=tmp_path)
    patch = _ran(AGENTS, "plan", "diff", data["plan_id"], cwd=repository)
    _ran("git", "apply", "--binary", cwd=fresh, stdin=patch)
    _is_as_published(release, fresh, after)
