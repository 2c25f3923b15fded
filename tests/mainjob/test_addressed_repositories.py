"""The main job on a repository that is named by its address (C11)."""

import json
import os
import signal
import socket
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from forges import Forge, commit, forging, upstream
from mainjob.driver import Answer, Desk, git, shell, write
from models.certificates import served_as

pytestmark = pytest.mark.service("bubblewrap")

TOKEN = "ghp_qwertzuiop0123456789"
BASIC = "Basic " + b64encode(f"x-access-token:{TOKEN}".encode()).decode()


@pytest.fixture
def shop(desk: Desk) -> Path:
    """The server's repository."""
    made = upstream(desk.folder / "forge/shop.git")
    git(made, "branch", "side")
    return made


@pytest.fixture
def forge(desk: Desk, shop: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Forge]:
    """A server that wants a token."""
    authority, context = served_as("localhost", desk.folder)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    monkeypatch.setenv("FORGE_TOKEN", TOKEN)
    with forging(shop.parent, context) as made:
        made.wanted = BASIC
        monkeypatch.setenv("PATCHYARD_CLONE_SECRETS", f"FORGE_TOKEN@{made.place}")
        yield made


def run(desk: Desk, url: str, *options: str) -> Answer:
    gate = ("--validate", "test -e made")
    seen = shell("cat a.txt; git log --format=%s; cat .git/config")
    return desk.run(write("made", "made\n"), seen, options=["--repo", url, *gate, *options])


def place(desk: Desk) -> Path:
    return next((desk.folder / "state/clones").glob("[0-9a-f]*/*/.git")).parent


def test_a_task_is_done_on_a_repository_behind_https_and_a_token(desk: Desk, forge: Forge) -> None:
    said = run(desk, f"{forge.url}/shop.git", "--apply", "branch")
    assert said.code == 0, said.message
    assert said.changed == {"made": "added"}
    assert [gate["passed"] for gate in said.data["validation"]] == [True]
    top, branch = place(desk), said.data["applied"]["reference"]
    git(desk.repo, "fetch", "-q", str(top), branch)
    assert git(desk.repo, "show", "FETCH_HEAD:made").strip() == "made"
    assert forge.told == {BASIC}
    shown = desk.agents("plan", "status", said.data["plan_id"], is_json=False)
    assert f"git fetch {top} {branch}" in shown.out.decode()
    held = [each for each in desk.folder.rglob("*") if each.is_file() and not each.is_symlink()]
    secrets = (TOKEN.encode(), BASIC.removeprefix("Basic ").encode())
    assert [each for each in held if any(s in each.read_bytes() for s in secrets)] == []


def test_what_is_new_at_the_server_is_what_a_plan_begins_with(desk: Desk, shop: Path) -> None:
    url = f"file://{shop}"
    old = git(shop, "rev-parse", "HEAD").strip()
    assert run(desk, url).data["base"]["commit"] == old
    new = commit(shop, "a.txt", "two\n")
    assert run(desk, url).data["base"]["commit"] == new
    assert run(desk, url, "--ref", "side").data["base"]["commit"] == old
    shop.rename(shop.with_name("away"))
    refused = run(desk, url)
    assert (refused.code, refused.body["error"]["code"]) == (4, "unavailable")
    assert f"the clone of earlier lies in {place(desk)}" in refused.message
    assert run(desk, str(place(desk))).data["base"]["commit"] == old, "that is its checkout"


def test_a_project_of_an_address_is_fetched_for_each_plan(desk: Desk, shop: Path) -> None:
    made = desk.agents("project", "create", "shop", "--repo", f"file://{shop}")
    assert (made.code, made.data["repository"]) == (0, str(place(desk)))
    (desk.folder / "action.yaml").write_text(
        "name: note\nsteps:\n- name: one\n  run: cat a.txt > seen\n"
    )
    assert desk.agents("action", "create", "--file", str(desk.folder / "action.yaml")).code == 0
    new = commit(shop, "a.txt", "two\n")
    used = desk.agents("plan", "use", "note", "shop", "--in", "process")
    assert used.code == 0, used.message
    assert used.data["base"]["commit"] == new
    assert desk.agents("project", "show", "shop").data["repository"] == str(place(desk))
    assert "clone" in {each["family"] for each in desk.agents("disk").data["families"]}
    assert desk.agents("gc").code == 0
    assert place(desk).is_dir()


def test_what_a_strangers_repository_sets_waits_for_trust(desk: Desk, shop: Path) -> None:
    commit(shop, ".patchyard/config.yaml", "variables:\n  SHOP: theirs\n")
    url, asks = f"file://{shop}", [shell("echo $SHOP > seen")]
    options = ["--repo", url, "--validate", ""]
    before = desk.run(*asks, options=options)
    assert before.code == 0, before.message
    assert "until `agents trust`: variables" in before.err
    trusted = desk.agents("trust", url)
    assert (trusted.code, trusted.data["path"]) == (0, str(place(desk)))
    after = desk.run(*asks, options=options)
    assert "until `agents trust`" not in after.err
    diff = desk.agents("plan", "diff", after.data["plan_id"], is_json=False)
    assert "+theirs" in diff.out.decode()
    commit(shop, ".patchyard/config.yaml", "variables:\n  SHOP: other\n")
    void = desk.run(*asks, options=options)
    assert "trust is void" in void.err


def test_a_repository_never_says_where_credentials_go(desk: Desk, forge: Forge, shop: Path) -> None:
    commit(shop, ".patchyard/config.yaml", "clone_secrets: [FORGE_TOKEN@other.example]\n")
    said = run(desk, f"{forge.url}/shop.git")
    assert said.code == 0, said.message
    assert "clone_secrets" in said.err


@pytest.mark.parametrize("way", ["worktree", "merge"])
def test_nothing_is_written_into_the_checkout_of_a_clone(desk: Desk, shop: Path, way: str) -> None:
    url = f"file://{shop}"
    refused = run(desk, url, "--apply", way)
    assert (refused.code, "--apply branch or --apply patch" in refused.message) == (2, True)
    assert not (desk.folder / "state/clones").exists()
    done = run(desk, url)
    applied = desk.agents("plan", "apply", done.data["plan_id"], "--to", way)
    assert (applied.code, "a clone that Patchyard keeps" in applied.message) == (2, True)
    patch = desk.folder / "out.patch"
    words = ("plan", "apply", done.data["plan_id"], "--to", "patch", "--name", str(patch))
    assert desk.agents(*words).code == 0
    git(shop, "apply", "--check", str(patch))
    assert git(place(desk), "status", "--porcelain") == ""


@pytest.mark.parametrize(
    "url",
    [
        "https://ada:s3cret@localhost/shop.git",
        "https://s3cret@localhost/shop.git",
        "https://localhost/shop.git?token=s3cret",
        "ext::sh -c 's3cret; touch ran'",
        "ssh://-oProxyCommand=s3cret/x",
        "http://localhost/s3cret.git",
    ],
)
@pytest.mark.parametrize("words", [("run", "x"), ("project", "create", "shop"), ("trust",)])
def test_an_address_that_is_refused_is_repeated_nowhere(
    desk: Desk, url: str, words: tuple[str, ...]
) -> None:
    option = [url] if words == ("trust",) else ["--repo", url]
    said = desk.agents(*words, *option)
    assert (said.code, said.body["error"]["code"]) == (2, "usage")
    assert "that repository cannot be cloned: " in said.message
    assert b"s3cret" not in said.out
    assert "s3cret" not in said.err
    held = [each for each in (desk.folder / "state").rglob("*") if each.is_file()]
    assert [each for each in held if b"s3cret" in each.read_bytes()] == []
    assert not (desk.repo / "ran").exists()


def test_without_room_nothing_is_cloned(desk: Desk, shop: Path) -> None:
    said = desk.agents(
        "run", "x", "--repo", f"file://{shop}", environ={"PATCHYARD_KEEP": "{free: 900T}"}
    )
    assert (said.code, said.body["error"]["code"]) == (4, "no_room")
    assert not (desk.folder / "state/clones").exists()
    assert os.listdir(desk.folder / "state")  # noqa: PTH208 - names alone


def test_an_ordinary_user_works_on_a_repository_of_another(plain_desk: Desk) -> None:
    shop = upstream(plain_desk.folder / "forge/shop.git")
    said = run(plain_desk, f"file://{shop}", "--apply", "branch")
    assert said.code == 0, said.message
    top = place(plain_desk)
    assert git(top, "-c", "safe.directory=*", "show", f"{said.data['applied']['reference']}:made")
    assert top.stat().st_uid == shop.stat().st_uid or top.stat().st_uid == plain_desk.user


def test_an_interrupt_ends_a_clone_and_leaves_nothing(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # it takes connections, and no more
        url = f"https://localhost:{server.getsockname()[1]}/shop.git"
        process = desk.start("run", "x", "--repo", url, "--format", "json")
        connection, _ = server.accept()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        connection.close()
    assert process.returncode == 130
    assert json.loads(out)["error"]["code"] == "interrupted"
    assert [*(desk.folder / "state/clones").iterdir()] == []
