"""Real packages again: the same task comes to the same change set in every kind of place.

Nothing is set up, which `ssh` and `host` cannot do: what a package's tests need is committed with
it. CI takes one package and a short look at it, `PATCHYARD_SOAK=1` all of the list and their tests.
"""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from acceptance.releases import Release, fetch, packages
from acceptance.undertakings import commit, conversation, ran, require_published
from images import WITH_PYTHON, image
from machines import lend
from mainjob.driver import Answer, Desk, git
from patchyard.clients.guest_disks import PACKAGES
from services import absence, kernel_folder
from sshds import HOST, serving_ssh
from timing import IS_SOAK

CHOSEN = [
    one if IS_SOAK else replace(one, beside=(), look=one.glance)
    for one in packages()
    if IS_SOAK or one.glance
]
INDEXES = {"pypi": ["pypi-index"], "npm": ["npm-index", "node"]}
#: Each kind by what a plan says to get there, and the services it needs.
PLACES = {
    "container": ("box", ["docker"]),
    "devcontainer": ("co-devcontainer", ["docker"]),
    "host": ("host", []),
    "mock": ("mock", []),
    "process": ("process", ["bubblewrap"]),
    "ssh": ("far", ["sshd"]),
    "vm": ("machine", ["qemu"]),
}
#: What a command may do to a tree: modes, links, names that are no text, bytes, renames, deletions.
WORK = r"""
mkdir -p notes/deep notes/empty && printf 'what was done\n' > notes/deep/said.md
printf '#!/bin/sh\necho "$0"\n' > notes/run.sh && chmod 755 notes/run.sh
ln -s deep/said.md notes/link && ln -s ../../outside notes/lost && ln notes/run.sh notes/twin.sh
printf '\000\377\r\n' > notes/bytes && printf x > "notes/$(printf 'n\344me')" && : > 'notes/ a name'
mv .gitignore notes/was-ignored && cp notes/was-ignored .gitignore
chmod 600 notes/bytes && touch -d 1999-12-31 notes/bytes
"""
AGAIN = "rm -rf notes/twin.sh notes/lost && mv notes/link notes/way && printf more >> notes/bytes"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600 if IS_SOAK else 900)]


@dataclass(kw_only=True)
class Job:
    """One release's checkout, what is to be done there, and what came of it so far."""

    desk: Desk
    script: Path
    after: Path
    wanted_tree: str
    calls: int
    outcomes: dict[str, bytes] = field(default_factory=dict)


@dataclass(kw_only=True)
class Lab:
    """The jobs of all releases, made when first asked for."""

    folder: Path
    around: contextlib.ExitStack
    jobs: dict[str, Job] = field(default_factory=dict)

    def job(self, release: Release) -> Job:
        """Return the job of a release."""
        if release.name not in self.jobs:
            self.jobs[release.name] = _prepared(release, self.folder / release.name)
        return self.jobs[release.name]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    folder = Path(tempfile.mkdtemp(prefix="patchyard-kinds-", dir="/tmp"))
    folder.chmod(0o755)  # the agent of `host` is another user, who has to pass
    with contextlib.ExitStack() as around:
        made = Lab(folder=folder, around=around)
        yield made
        for job in made.jobs.values():
            job.desk.clear()
    shutil.rmtree(folder)


def _prepared(release: Release, folder: Path) -> Job:
    desk = Desk(folder=folder, repo=folder / "repo")
    desk.home.mkdir(parents=True)
    before, after = asyncio.run(fetch(release, folder / "releases"))
    beside = _beside(release, folder)
    commit(release, before, after, desk.repo, beside=beside)
    script = folder / "script.json"
    steps: list[Any] = []
    for step in release.conversation:
        is_command = isinstance(step, list) and step[0] == "execute_command"
        steps += _commands(release.look) if is_command else [step]
    count = conversation(release, steps, repository=desk.repo, after=after, target=script)
    tree = _by_hand(script, desk.repo, folder / "by-hand")
    return Job(
        desk=desk, script=script, after=after, wanted_tree=tree, calls=len(steps) - 2 + count
    )


def _commands(look: str) -> list[Any]:
    limits = {"timeout_s": 600}
    return [["execute_command", {"command": each, **limits}] for each in (look, WORK, AGAIN)]


def _beside(release: Release, folder: Path) -> dict[str, Path]:
    """Get what the tests need; where each part lies in the checkout."""
    source = folder / "beside"
    (source / ".devcontainer").mkdir(parents=True)
    described = {"image": image(_image(release)) if absence("docker") is None else "none"}
    (source / ".devcontainer/devcontainer.json").write_text(json.dumps(described))
    if release.beside:
        _install(release, source)
    return {place.name: place for place in source.iterdir() if place.is_dir()}


def _install(release: Release, folder: Path) -> None:
    if release.index == "npm":
        ran("npm", "install", "--no-package-lock", "--prefix", ".", *release.beside, cwd=folder)
        return
    options = ("--quiet", "--no-compile", "--target", "vendor")
    ran(sys.executable, "-m", "pip", "install", *options, *release.beside, cwd=folder)
    shutil.rmtree(folder / "vendor/bin", ignore_errors=True)


def _image(release: Release) -> tuple[str, ...]:
    return WITH_PYTHON if release.index == "pypi" else (*WITH_PYTHON, *_node())


def _node() -> list[str]:
    """The packages of node and of the libraries it is linked with."""
    node = shutil.which("node") or "node"
    listed = ran("ldd", os.path.realpath(node), cwd=Path("/")).decode().split()
    places = [os.path.realpath(word) for word in (node, *listed) if word.startswith("/")]
    places += [place.removeprefix("/usr") for place in places]  # as packages still say it
    words = ("dpkg-query", "--search", *places)
    owners = subprocess.run(words, check=False, capture_output=True, text=True).stdout.splitlines()
    return sorted({line.partition(":")[0] for line in owners})


def _by_hand(script: Path, repository: Path, clone: Path) -> str:
    """The tree that the conversation leads to, by git and a shell alone."""
    ran("git", "clone", "--quiet", str(repository), str(clone), cwd=repository)
    for reply in json.loads(script.read_text())["execute"]:
        for call in reply.get("calls", ()):
            given = call["arguments"]
            if call["name"] == "search_replace":
                content = (clone / given["path"]).read_bytes().decode()
                assert content.count(given["old_string"]) == 1
                changed = content.replace(given["old_string"], given["new_string"])
                (clone / given["path"]).write_bytes(changed.encode())
            elif given.get("command") in {WORK, AGAIN}:
                ran("sh", "-ec", given["command"], cwd=clone)
    ran("git", "add", "--all", cwd=clone)
    return git(clone, "write-tree").strip()


def _linked(lab: Lab, release: Release, desk: Desk, kind: str) -> str:
    """Give the project what a kind needs; the word for the place."""
    place, _ = PLACES[kind]
    if place == kind:
        return place
    desk.agents("project", "create", "shop")
    words: tuple[str, ...]
    if kind == "container":
        words = ("container-instance", place, "--image", image(_image(release)))
    elif kind == "devcontainer":
        words = ("git-checkout", "co", "--path", ".")
    elif kind == "ssh":
        lab.around.enter_context(serving_ssh()).configure(desk.home)
        words = ("ssh-host", place, "--host", HOST)
    else:
        words = ("vm-image", place, *_machine(release, desk))
    added = desk.agents("resource", "add", *words)
    assert added.code == 0, added.message
    linked = desk.agents("project", "link-resource", "shop", place)
    assert linked.code == 0, linked.message
    return place


def _machine(release: Release, desk: Desk) -> list[str]:
    lend(desk.folder / "state" / "run")
    if release.index == "pypi":
        return ["--image", kernel_folder()] if kernel_folder() else []
    folder = desk.folder / "machine"
    folder.mkdir()
    for name in ("boot", "lib"):
        (folder / name).symlink_to(Path(kernel_folder() or "/", name))
    known = ran("dpkg-query", "--show", "--showformat=${Package}\n", cwd=folder).decode().split()
    (folder / "packages").write_text(" ".join([*{*PACKAGES} & {*known}, *_node()]))
    return ["--image", str(folder)]


def _require_proof(release: Release, done: Answer) -> None:
    (gate,) = done.data["validation"]
    assert gate["passed"], gate["output"]
    assert gate["before"]["exit_code"] == 1, gate["before"]["output"]
    for name in release.fails:
        assert name in gate["before"]["output"]


@pytest.mark.parametrize(
    ("release", "kind"),
    [
        pytest.param(
            *(release, kind),
            id=f"{release.name}-{kind}",
            marks=[pytest.mark.service(each) for each in (*INDEXES[release.index], *needed)],
        )
        for release in CHOSEN
        for kind, (_, needed) in PLACES.items()
    ],
)
def test_the_main_job_comes_to_the_same_change_set_in_every_kind(
    lab: Lab, release: Release, kind: str, tmp_path: Path
) -> None:
    job = lab.job(release)
    desk = job.desk
    words = ("run", release.task, "--model", f"scripted:{job.script}", "--validate", release.look)
    place = _linked(lab, release, desk, kind)
    done = desk.agents(*words, "--in", place)
    assert done.code == 0, done.message
    _require_proof(release, done)
    assert done.data["execution"]["tool_calls"] == job.calls
    events = desk.agents("plan", "events", "@last").data["events"]
    asked = {each["kind"] for each in events if each["event"] == "ToolCallRequested"}
    assert asked == {kind}
    failed = [e for e in events if e["event"] == "ToolCallSettled" and not e["success"]]
    assert failed == []

    assert (done.data["changeset"]["tree"], done.data["findings"]) == (job.wanted_tree, [])
    patch = desk.agents("plan", "diff", "@last", is_json=False).out
    outcome = done.data["changeset"]["id"].encode() + b"\n" + patch
    first = next(iter(job.outcomes), kind)
    assert job.outcomes.setdefault(first, outcome) == outcome, (first, kind)

    fresh = tmp_path / "fresh"
    ran("git", "clone", "--quiet", str(desk.repo), str(fresh), cwd=tmp_path)
    ran("git", "apply", "--binary", cwd=fresh, stdin=patch)
    require_published(release, fresh, job.after)
    assert git(desk.repo, "status", "--porcelain") == ""
