"""Each role at its work on published packages, by the command line; the models are scripted.

Each package has a bug planted that its own tests let pass: a reviewer has to stop it, a developer
to mend it, a tester to add the test that was missing, proven by taking the mend away. Nothing of
the packages stands here but the lines that are exchanged.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from acceptance.releases import fetch_all
from mainjob.driver import Answer, Desk, call, finish, git, write

TESTER_ADDS = """import sys
import unittest

sys.path.insert(0, {source!r})


class Planted(unittest.TestCase):
    def test_planted(self):
        {check}
"""


@dataclass(frozen=True, kw_only=True)
class Package:
    """A release, the bug that is planted in it, and what shows that bug."""

    name: str
    version: str
    path: str  # of the file with the bug
    right: str  # the line as it was published
    wrong: str  # what is planted
    source: str  # where its code is imported from
    tests: str  # all tests that it was published with; they let the bug pass
    check: str  # the assertion that does not
    setting: str  # what the assertion needs
    runs: bool  # whether the tests run the line at all

    @property
    def added(self) -> str:
        """The test module that notices."""
        check = f"{self.setting}\n\n        self.assertTrue({self.check})"
        return TESTER_ADDS.format(source=self.source, check=check)

    @property
    def shows(self) -> str:
        """A command that fails while the bug is there."""
        return f"PYTHONPATH={self.source} python3 -B -c '{self.setting}; assert {self.check}'"


DISCOVER = "python3 -B -m unittest discover -q -s tests -t ."
PACKAGES = (
    Package(
        name="pathspec",
        version="0.12.1",
        path="pathspec/util.py",
        right="\t\tnorm_file = norm_file[2:]\n",
        wrong="\t\tnorm_file = norm_file.lstrip('./')\n",
        source=".",
        tests=DISCOVER,
        setting="from pathspec.util import normalize_file",
        check='normalize_file("./.env") == ".env"',
        runs=True,
    ),
    Package(
        name="xmltodict",
        version="0.13.0",
        path="xmltodict.py",
        right="            return self.force_list\n",
        wrong="            return not self.force_list\n",
        source=".",
        tests="python3 -B -m unittest discover -q -s tests",
        setting="from xmltodict import parse",
        check='parse("<a><b>1</b></a>", force_list=True)["a"][0]["b"] == ["1"]',
        runs=False,
    ),
    Package(
        name="cachetools",
        version="5.3.3",
        path="src/cachetools/keys.py",
        right="    key += tuple(type(v) for _, v in sorted(kwargs.items()))\n",
        wrong="    key += tuple(type(v) for v, _ in sorted(kwargs.items()))\n",
        source="src",
        tests=f"PYTHONPATH=src {DISCOVER}",
        setting="from cachetools.keys import typedkey",
        check="typedkey(x=0) != typedkey(x=0.0)",
        runs=True,
    ),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.service("pypi-index"),
    pytest.mark.service("bubblewrap"),
    pytest.mark.service("overlay"),
]


@dataclass(frozen=True, kw_only=True)
class Work:
    """One package's checkout."""

    package: Package
    desk: Desk

    @property
    def file(self) -> Path:
        """The file with the bug."""
        return self.desk.repo / self.package.path

    @property
    def line(self) -> int:
        """Where the planted line stands."""
        return self.file.read_text().splitlines(keepends=True).index(self.package.wrong) + 1

    def run(self, role: str, *replies: dict[str, Any], options: tuple[str, ...] = ()) -> Answer:
        """Run a task in that role with these replies."""
        script = self.desk.script(*replies, name=role)
        words = ("--role", role, "--model", f"scripted:{script}", "--in", "process")
        tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # coverage.py
        task = f"The work of a {role}"
        return self.desk.agents(
            "run", task, *words, "--setup", "", *options, environ={"PATH": tools}
        )

    def commit(self, message: str) -> None:
        """Commit all there is."""
        git(self.desk.repo, "add", "--all")
        git(self.desk.repo, "commit", "--quiet", "--message", message)


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The trees of all releases, by name; fetched at once."""
    folder = tmp_path_factory.mktemp("releases")
    wanted = [(package.name, package.version) for package in PACKAGES]
    trees = asyncio.run(fetch_all("pypi", wanted, folder))
    return {package.name: tree for package, tree in zip(PACKAGES, trees, strict=True)}


@pytest.fixture(params=PACKAGES, ids=lambda package: package.name)
def work(
    request: pytest.FixtureRequest, tmp_path: Path, releases: dict[str, Path]
) -> Iterator[Work]:
    """A checkout of the release as it was published, all committed."""
    package: Package = request.param
    desk = Desk(folder=tmp_path, repo=tmp_path / "repo")
    desk.home.mkdir()
    shutil.move(releases[package.name], desk.repo)
    git(desk.repo, "init", "--quiet", "--initial-branch", "main")
    made = Work(package=package, desk=desk)
    made.commit(f"{package.name} {package.version}")
    yield made
    desk.clear()


def test_each_role_does_its_part_on_a_published_package(work: Work) -> None:
    package = work.package
    published = work.file.read_text()
    assert published.count(package.right) == 1
    work.file.write_text(published.replace(package.right, package.wrong))

    _reviewer_rejects(work)
    work.commit("feat: the bug")  # nobody listened
    _developer_mends(work)
    assert work.file.read_text() == published
    _tester_adds(work)
    _reviewer_accepts(work)
    _architect_decides(work)


def _reviewer_rejects(work: Work) -> None:
    package, line = work.package, work.line
    finding = {"path": package.path, "line": line, "severity": "error", "rule": "wrong-result"}
    found = {**finding, "message": f"not ({package.check})"}
    beyond = {**found, "line": 1 + len(work.file.read_text().splitlines())}
    rejected = work.run(
        "reviewer",
        call("read_file", path=package.path, start_line=max(1, line - 5), end_line=line + 5),
        call("execute_command", command=package.shows, timeout_s=60),
        call("finish", summary="no", verdict="request_changes", findings=[beyond]),  # sent back
        call("finish", summary="no", verdict="request_changes", findings=[found]),
        options=("--validate", package.tests),
    )
    assert (rejected.code, rejected.body["error"]["code"]) == (1, "review_rejected")
    review = rejected.data["review"]
    assert (review["verdict"], review["findings"]) == ("request_changes", [found])
    (result,) = review["sarif"]["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": package.path}
    assert place["region"] == {"startLine": line}
    assert (result["ruleId"], result["level"]) == ("wrong-result", "error")
    assert rejected.data["changeset"] is None
    coverage = review["coverage"]
    assert (coverage["measured"], coverage["covered"]) == (1, int(package.runs)), coverage
    assert coverage["files"][0]["uncovered"] == ([] if package.runs else [line])


def _developer_mends(work: Work) -> None:
    package = work.package
    mended = work.run(
        "developer",
        call("grep_search", pattern=package.wrong.strip()[:12], path=package.path),
        call(
            "search_replace",
            path=package.path,
            old_string=package.wrong,
            new_string=package.right,
        ),
        finish("It is as it was before the last commit."),
        options=("--validate", package.tests, "--validate", package.shows, "--apply", "worktree"),
    )
    assert mended.code == 0, mended.message
    assert mended.changed == {package.path: "modified"}
    tests, shows = mended.data["validation"]
    assert (tests["before"]["passed"], tests["passed"]) == (True, True)
    assert (shows["before"]["passed"], shows["passed"]) == (False, True)


def _tester_adds(work: Work) -> None:
    package, place = work.package, "tests/test_planted.py"
    added = work.run(
        "tester",
        write(place, package.added),
        finish("added one that notices"),
        options=("--validate", package.tests, "--apply", "worktree"),
    )
    assert added.code == 0, added.message
    assert added.changed == {place: "added"}
    assert added.data["removal"]["subject"] == "1 uncommitted file"
    events = work.desk.agents("plan", "events", added.data["plan_id"]).data["events"]
    proven = [event for event in events if event["event"] == "RemovalProven"]
    assert [event.get("noticed", []) for event in proven] == [[package.tests]]


def _reviewer_accepts(work: Work) -> None:
    look = call("execute_command", command=work.package.shows, timeout_s=60)
    accepted = work.run("reviewer", look, call("finish", summary="yes", verdict="approve"))
    assert accepted.code == 0, accepted.message
    review = accepted.data["review"]
    assert (review["verdict"], review["findings"]) == ("approve", [])
    assert review["subject"] == "2 uncommitted files"
    assert review["sarif"]["runs"][0]["results"] == []


def _architect_decides(work: Work) -> None:
    package = work.package
    texts = {
        "title": f"{package.name} keeps a test for each mended bug",
        "context": f"The tests of {package.version} let a bug in {package.path} pass.",
        "decision": "Whoever mends adds the test.",
        "consequences": "Mending takes longer.",
    }
    options = [
        {"name": "with the mend", "reason": "it is known then what goes wrong"},
        {"name": "once a year", "reason": "nobody remembers"},
    ]
    read = call("read_file", path=package.path, end_line=20)
    record = call("finish", summary="decided", options=options, **texts)
    decided = work.run("architect", read, record)
    assert decided.code == 0, decided.message
    kept = decided.data["record"]
    assert kept["options"] == options
    assert {name: kept[name] for name in texts} == texts
    headings = [line for line in kept["markdown"].splitlines() if line.startswith("#")]
    assert headings[0] == f"# {texts['title']}"
    assert {"## Context", "## Decision", "## Consequences"} <= set(headings)
