"""Trust in a repository whose devcontainer is built: void when what it is built by changes."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from patchyard.cli.config import config
from patchyard.cli.trust import trust
from patchyard.clients.glimpse import glimpse
from patchyard.configuration import repository_files
from patchyard.domain.dockerfile import DOCKERFILE_BYTES, LINKS
from patchyard.domain.trust import void_because

OWN = ".devcontainer"
CONFIG = f"{OWN}/devcontainer.json"
FEATURE = f"{OWN}/tools"
BUILT = {"build": {"dockerfile": "Dockerfile", "context": ".."}}
Change = Callable[[Path], None]


@pytest.fixture(autouse=True)
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose devcontainer is built by a Dockerfile and has a feature of its own."""
    folder = tmp_path / "shop"
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    put(folder, CONFIG, json.dumps({**BUILT, "features": {"./tools": {}}}))
    put(folder, f"{OWN}/Dockerfile", "FROM debian:12\nCOPY setup.sh /\nRUN /setup.sh\n")
    put(folder, "setup.sh", "true\n")
    put(folder, f"{FEATURE}/devcontainer-feature.json", '{"id": "tools"}')
    put(folder, f"{FEATURE}/install.sh", "true\n")
    monkeypatch.chdir(folder)
    return folder


def put(top: Path, path: str, text: str) -> None:
    place = top / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def link(top: Path, path: str, target: str) -> None:
    (top / path).parent.mkdir(parents=True, exist_ok=True)
    (top / path).unlink(missing_ok=True)
    (top / path).symlink_to(target)


def described(**said: Any) -> Change:
    return lambda top: put(top, CONFIG, json.dumps(said))


def typed(*words: str) -> Result:
    command = {"config": config, "trust": trust}[words[0]]
    return CliRunner().invoke(command, words[1:], catch_exceptions=False)


def is_trusted() -> bool:
    return bool(json.loads(typed("config", "show", "--format", "json").stdout)["data"]["trusted"])


def nothing(_top: Path) -> None:
    """Leave it."""


def linked(top: Path) -> None:
    """The Dockerfile is a link, by way of another one."""
    put(top, "images/real", "FROM debian:12\n")
    put(top, "images/other", "FROM debian:12\n")
    link(top, "images/way", "real")
    link(top, f"{OWN}/Dockerfile", "../images/way")


def older(top: Path) -> None:
    described(dockerFile="../Dockerfile", context="..")(top)
    put(top, "Dockerfile", "FROM debian:12\n")


def absent(top: Path) -> None:
    (top / OWN / "Dockerfile").unlink()


def behind_a_folder(top: Path) -> None:
    put(top, "images/Dockerfile", "FROM debian:12\n")
    link(top, "way", "images")
    described(build={"dockerfile": "../way/Dockerfile", "context": ".."})(top)


@pytest.mark.parametrize(
    ("before", "change", "said"),
    [
        (nothing, lambda t: put(t, f"{OWN}/Dockerfile", "FROM x\nRUN :\n"), "/Dockerfile has"),
        (nothing, lambda t: link(t, f"{OWN}/Dockerfile", "../setup.sh"), "/Dockerfile has"),
        (nothing, absent, "/Dockerfile is gone"),
        (absent, lambda t: put(t, f"{OWN}/Dockerfile", "FROM x\n"), "/Dockerfile is new"),
        (older, lambda t: put(t, "Dockerfile", "FROM x\n"), "void: Dockerfile has"),
        (linked, lambda t: put(t, "images/real", "FROM x\n"), "images/real has"),
        (linked, lambda t: link(t, "images/way", "other"), "images/other is new"),
        (linked, lambda t: link(t, f"{OWN}/Dockerfile", "../images/real"), "/Dockerfile has"),
        (behind_a_folder, lambda t: link(t, "way", OWN), "way has changed"),
        (nothing, lambda t: put(t, f"{FEATURE}/install.sh", "false\n"), "/install.sh has"),
        (nothing, lambda t: put(t, f"{FEATURE}/more/x", ""), "/tools/more/x is new"),
        (nothing, lambda t: link(t, f"{FEATURE}/install.sh", "more"), "/install.sh is gone"),
        (nothing, lambda t: put(t, f"{OWN}/devcontainer-lock.json", "{}"), "-lock.json is new"),
    ],
)
def test_what_a_devcontainer_is_built_by_makes_trust_void_as_it_changes(
    top: Path, before: Change, change: Change, said: str
) -> None:
    before(top)
    assert typed("trust").exit_code == 0
    assert is_trusted()
    put(top, "setup.sh", "what a build copies in is code as any other\n")
    assert is_trusted()
    marks = repository_files(glimpse(top, None)).marks
    change(top)
    assert not is_trusted()
    assert said in void_because(marks, repository_files(glimpse(top, None)).marks)
    assert typed("trust").exit_code == 0
    assert is_trusted()


def test_what_trust_covers_of_a_build_is_listed() -> None:
    listed = json.loads(typed("trust", "--format", "json").stdout)["data"]["files"]
    own = ["Dockerfile", "devcontainer.json"]
    features = ["tools/devcontainer-feature.json", "tools/install.sh"]
    assert listed == [f"{OWN}/{name}" for name in (*own, *features)]


def test_a_commit_is_hashed_as_its_checkout_is(top: Path) -> None:
    linked(top)
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "add", "-A"], cwd=top, check=True)
    subprocess.run(["git", *who, "commit", "-q", "-m", "x"], cwd=top, check=True)
    here, there = (repository_files(glimpse(top, ref)) for ref in (None, "head"))
    assert here.hashed == there.hashed
    assert {"/link/images/way", "images/real"} <= here.hashed.keys()


def pipe(top: Path) -> None:
    absent(top)
    os.mkfifo(top / OWN / "Dockerfile")


def large(top: Path) -> None:
    put(top, f"{OWN}/Dockerfile", "#" * (DOCKERFILE_BYTES + 1))


def many(top: Path) -> None:
    for number in range(501):
        put(top, f"{FEATURE}/{number}", "")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (pipe, f"{OWN}/Dockerfile is a special file"),
        (large, f"{OWN}/Dockerfile has more than 1,048,576 bytes"),
        (many, "what its devcontainers are built by holds more than 500 files"),
        (
            described(build={"dockerfile": "${localEnv:WHICH:Dockerfile}"}),
            f"{CONFIG}: build.dockerfile: a variable decides which file it is",
        ),
    ],
)
def test_what_cannot_be_hashed_of_a_build_is_not_trusted(
    top: Path, make: Change, said: str
) -> None:
    make(top)
    refused = typed("trust")
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert "devcontainer.json" in refused.stderr.partition("hint:")[2]
    assert not is_trusted()


@pytest.mark.parametrize(
    "make",
    [
        described(build={"dockerfile": "../../outside"}),
        described(build={"dockerfile": "/etc/passwd"}),
        described(build={"dockerfile": 7}),
        described(build="odd", dockerFile=[]),
        described(build={"dockerfile": "."}),
        described(build={"dockerfile": "tools"}),
        described(image="debian:12", features=[]),
        lambda top: put(top, CONFIG, "["),
        lambda top: link(top, f"{OWN}/Dockerfile", "Dockerfile"),
        lambda top: link(top, f"{OWN}/Dockerfile", "../../outside"),
    ],
)
def test_a_build_that_cannot_be_had_keeps_no_trust_away(top: Path, make: Change) -> None:
    put(top.parent, "outside", "FROM debian:12\n")
    make(top)
    assert typed("trust").exit_code == 0
    assert is_trusted()
    assert "outside" not in json.dumps(sorted(repository_files(glimpse(top, None)).paths))


def test_a_chain_of_links_is_followed_as_far_as_a_build_follows_it(top: Path) -> None:
    link(top, f"{OWN}/Dockerfile", "way0")
    for number in range(LINKS + 5):
        link(top, f"{OWN}/way{number}", f"way{number + 1}")
    found = repository_files(glimpse(top, None)).hashed
    assert sum(path.startswith(f"/link/{OWN}/") for path in found) == LINKS
