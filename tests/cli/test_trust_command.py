"""`agents trust`: what makes it void, what it refuses, and what it says that it grants."""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from patchyard.cli.config import config
from patchyard.cli.init import init
from patchyard.cli.trust import trust
from patchyard.clients.glimpse import FILE_BYTES, glimpse
from patchyard.configuration import repository_files
from patchyard.domain.errors import GuardRefused
from patchyard.domain.holdings import Holdings
from patchyard.domain.resource import DEVCONTAINER_INSTANCE, Resource
from patchyard.engine.catalogue import Catalogue
from patchyard.intake_devcontainers import described_by
from patchyard.storage import open_storage

COMMANDS: dict[str, click.Command] = {"config": config, "init": init, "trust": trust}
DEEP = "/".join("abcdefghijkl")
LARGE = bytes(FILE_BYTES + 1)


@pytest.fixture(autouse=True)
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shop"
    (folder / ".patchyard").mkdir(parents=True)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    (folder / ".patchyard" / "config.yaml").write_text("variables: {GREETING: hello}\n")
    monkeypatch.chdir(folder)
    return folder


def typed(*words: str) -> Result:
    return CliRunner().invoke(COMMANDS[words[0]], words[1:], catch_exceptions=False)


def data(*words: str) -> Any:
    envelope = json.loads(typed(*words, "--format", "json").stdout)
    assert envelope["status"] == "ok", envelope
    return envelope["data"]


async def held() -> Holdings:
    async with open_storage(os.environ) as storage:
        return await Catalogue(storage.journal, storage.clock).holdings()


def is_trusted() -> bool:
    return bool(data("config", "show")["trusted"])


def put(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def large(folder: Path) -> None:
    put(folder / "large", LARGE)


def deep(folder: Path) -> None:
    put(folder / DEEP / "tool", b"1")


def link(folder: Path) -> None:
    (folder / "tool").symlink_to("/bin/true")


def linked_folder(folder: Path) -> None:
    (folder / "tools").symlink_to("..", target_is_directory=True)


def file(folder: Path) -> None:
    put(folder / "tool", b"/bin/true")


def relinked(folder: Path) -> None:
    (folder / "tool").unlink()
    (folder / "tool").symlink_to("/bin/false")


def replaced(folder: Path) -> None:
    (folder / "tool").unlink()
    file(folder)


def turned(folder: Path) -> None:
    (folder / "tool").unlink()
    link(folder)


def nothing(folder: Path) -> None:
    """Leave it."""


Change = Callable[[Path], None]


@pytest.mark.parametrize(
    ("before", "change"),
    [
        (nothing, large),
        (nothing, deep),
        (nothing, link),
        (nothing, linked_folder),
        (large, lambda folder: put(folder / "large", LARGE[1:] + b"x")),
        (large, lambda folder: (folder / "large").unlink()),
        (deep, lambda folder: put(folder / DEEP / "tool", b"2")),
        (deep, lambda folder: (folder / DEEP / "tool").unlink()),
        (link, relinked),
        (link, replaced),
        (file, turned),
        (linked_folder, lambda folder: (folder / "tools").rename(folder / "others")),
    ],
)
def test_whatever_changes_in_the_folder_makes_trust_void(
    top: Path, before: Change, change: Change
) -> None:
    before(top / ".patchyard")
    data("trust")
    assert is_trusted()
    change(top / ".patchyard")
    assert not is_trusted()
    data("trust")
    assert is_trusted()


@pytest.mark.parametrize(
    ("before", "change", "said"),
    [
        (nothing, file, ".patchyard/tool is new"),
        (file, lambda folder: put(folder / "tool", b"2"), ".patchyard/tool has changed"),
        (file, lambda folder: (folder / "tool").unlink(), ".patchyard/tool is gone"),
        (file, turned, ".patchyard/tool has changed"),
        (large, lambda folder: put(folder / "large", LARGE[1:] + b"x"), "large has changed"),
        (file, lambda folder: os.mkfifo(folder / "pipe"), "its settings have changed"),
    ],
)
def test_trust_that_a_change_made_void_is_told_with_the_file_that_changed(
    top: Path, before: Change, change: Change, said: str
) -> None:
    before(top / ".patchyard")
    data("trust")
    assert "void" not in typed("config", "check").output
    change(top / ".patchyard")
    told = typed("config", "check").output
    assert "this repository's trust is void" in told
    assert f"{said} since; ignored from its settings until `agents trust`: variables" in told
    data("trust", "--revoke")
    assert "void" not in typed("config", "check").output


def test_trust_of_a_version_that_kept_no_marks_of_files_is_told_to_be_void(top: Path) -> None:
    async def older() -> None:
        async with open_storage(os.environ) as storage:
            await Catalogue(storage.journal, storage.clock).trust(str(top), "of older files")

    asyncio.run(older())
    told = typed("config", "check").output
    assert "this repository's trust is void: its settings have changed since; ignored" in told


def test_a_devcontainer_refused_for_trust_that_is_void_says_so(top: Path) -> None:
    put(top / ".devcontainer.json", b'{"image": "i", "privileged": true}')
    data("trust")
    put(top / ".devcontainer.json", b'{"image": "j", "privileged": true}')
    holdings = asyncio.run(held())
    files = repository_files(glimpse(top, None))
    found = Resource(
        name="own", type=DEVCONTAINER_INSTANCE, location=str(top), config=".devcontainer.json"
    )
    with pytest.raises(GuardRefused, match="privileged, which an untrusted") as refused:
        described_by(
            found,
            str(top),
            glimpse(top, None),
            trust=holdings.trust_in(str(top), files.digest, files.marks),
            environ=os.environ,
        )
    assert "trust is void: .devcontainer.json has changed since" in refused.value.hint


def test_what_is_trusted_is_listed_whole(top: Path) -> None:
    for make in (large, deep, link):
        make(top / ".patchyard")
    found = [".patchyard/config.yaml", ".patchyard/large", ".patchyard/tool"]
    assert data("trust")["files"] == sorted([*found, f".patchyard/{DEEP}/tool"])


def pipe(folder: Path) -> None:
    (folder / "deep").mkdir()
    os.mkfifo(folder / "deep" / "pipe")


def sparse(folder: Path) -> None:
    with (folder / "huge").open("wb") as opened:
        opened.truncate(10**12)


def many(folder: Path) -> None:
    for number in range(501):
        (folder / f"z{number}").touch()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (pipe, ".patchyard/deep/pipe is a special file"),
        (sparse, ".patchyard holds more than"),
        (many, ".patchyard holds more than"),
    ],
)
def test_what_cannot_be_hashed_is_not_trusted(top: Path, make: Change, words: str) -> None:
    data("trust")
    make(top / ".patchyard")
    assert not is_trusted()
    assert words in typed("config", "show").stderr
    refused = typed("trust")
    assert refused.exit_code == 2
    assert words in refused.stderr
    assert "trust" in refused.stderr


def test_a_folder_with_too_much_in_it_takes_back_none_of_its_stricter_settings(top: Path) -> None:
    (top / ".patchyard" / "config.yaml").write_text("limits: {max_steps: 3}\nvalidate: [make]\n")
    many(top / ".patchyard")
    settings = data("config", "show")["settings"]
    assert (settings["limits.max_steps"]["value"], settings["validate"]["value"]) == (3, ["make"])


def test_init_does_not_trust_what_it_did_not_write(top: Path) -> None:
    for make in (deep, large, link, pipe):
        made = top / ".patchyard"
        subprocess.run(["rm", "-r", made], check=True)
        made.mkdir()
        make(made)
        assert not data("init")["trusted"]
    assert not is_trusted()


SAID = """\
mounts: [/opt/x, "/opt/y:rw"]
network: {allow_hosts: [files.example.org, "GET api.example.org/v1", index], planning: true,
  max_connections: 3, max_call_bytes: 5M}
secrets: [DEPLOY_KEY@api.example.org]
variables: {GREETING: hello}
limits: {max_steps: 7, budget_usd: 900}
execution_environment: container
images: {python: "house/python"}
validate: [make]
mcp_servers:
  shop: {command: npx, args: [-y, shop-server],
    env: {TOKEN: "${SHOP_TOKEN}", A: b}, read_only_tools: [look],
    allow: [sampling]}
  wiki: {url: "https://wiki.example.org/mcp"}
"""


def test_all_that_trust_grants_is_said(top: Path) -> None:
    (top / ".patchyard" / "config.yaml").write_text(SAID)
    given = typed("trust")
    assert given.stdout.splitlines()[1:] == [
        "commands see /opt/x of this machine",
        "commands see /opt/y of this machine, and can write there",
        "commands reach files.example.org:443, and can upload there",
        "commands reach GET api.example.org:443/v1",
        "commands read the indexes",
        "commands reach these hosts while planning, too",
        "network.max_connections: 3",
        "network.max_call_bytes: 5 MiB",
        "requests to api.example.org:443 carry the secret DEPLOY_KEY of this machine",
        "commands are given GREETING=hello",
        "execution_environment: container",
        "images: {python: house/python}",
        "the MCP server shop runs npx -y shop-server, with TOKEN=${SHOP_TOKEN} A=b",
        "the MCP server shop is given the variable SHOP_TOKEN of this machine",
        "the MCP server shop may ask for sampling",
        "the MCP server shop may be called while planning: look",
        "the MCP server wiki is reached at https://wiki.example.org/mcp",
        "limits.budget_usd: 900",
    ]
    grants = data("trust")["grants"]
    assert grants["secrets"] == ["DEPLOY_KEY@api.example.org"]
    assert grants["mcp_servers"]["shop"]["env"]["TOKEN"] == "${SHOP_TOKEN}"
    assert grants["network"]["planning"] is True
    assert "validate" not in grants
    assert "limits.max_steps" not in grants


def test_a_grant_tells_no_line_that_is_not_its_own(top: Path) -> None:
    (top / ".patchyard" / "config.yaml").write_text('variables: {A: "x\\nvalidate is all"}\n')
    assert typed("trust").stdout.splitlines()[1:] == ["commands are given A=x\\nvalidate is all"]


DEVCONTAINER = """\
{
  "image": "house/${localEnv:SHOP_IMAGE:base}",
  "containerEnv": {"A": "${localEnv:HOME_LANG}", "T": "${localEnv:GITHUB_TOKEN}"},
  "postCreateCommand": ["echo", "${localEnv:SHOP_USER}"],
  "features": {"./own": {}, "ghcr.io/house/node:1": {"version": "${localEnv:NODE_VERSION}"}},
  "hostRequirements": {"memory": "64gb", "cpus": 4}
}
"""


def test_the_variables_that_a_devcontainer_is_given_are_named(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    path = ".devcontainer/devcontainer.json"
    put(top / path, DEVCONTAINER.encode())
    put(top / ".devcontainer/own/install.sh", b"")
    own = {"id": "own", "containerEnv": {"B": "${localEnv:EDITOR}${env:PAGER}"}}
    put(top / ".devcontainer/own/devcontainer-feature.json", json.dumps(own).encode())
    put(top / ".devcontainer/broken/devcontainer.json", b"{}")
    names = "SHOP_IMAGE, HOME_LANG, SHOP_USER, NODE_VERSION, EDITOR, PAGER"
    broken = ".devcontainer/broken/devcontainer.json"
    unmade = "names neither `image` nor `build`"
    assert typed("trust").stdout.splitlines()[2:] == [
        f"{path} is given the variables {names} of this machine",
        f"{path} fetches ghcr.io/house/node:1, with the variable HTTPS_PROXY of this machine",
        f"{path} asks for 64 GiB of memory, 4 processors",
        f"nothing counts of {broken} before it is mended: {broken}: {unmade}",
    ]
    found = data("trust")["devcontainers"][0]
    assert found["variables"] == names.split(", ")
    assert found["fetched"] == ["ghcr.io/house/node:1"]
