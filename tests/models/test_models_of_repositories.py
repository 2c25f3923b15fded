"""A repository's own `models.yaml`: what it may say, from when on, and for how long."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite
from models.scenes import working
from models.servers import ChatServer
from models.test_model_check import agents
from patchyard.casting import model_catalogue
from patchyard.domain.errors import UsageError
from patchyard.models.choosing import choose
from patchyard.models.providers import Catalogue

pytestmark = pytest.mark.anyio

MINE = """\
providers: {house: {base_url: "http://mine/v1"}}
roles:
  developer:
    default_model: own
    provider: house
    task_types: {documentation: {default_model: small, provider: house}}
  tester: {default_model: own, provider: house}
environments: {home: {roles: {tester: {default_model: at-home, provider: house}}}}
"""
THEIRS = """\
providers:
  acme: {base_url: "http://acme/v1", api_key_env: ACME_KEY}
  house: {base_url: "http://theirs/v1"}
roles:
  developer: {default_model: big, provider: acme, fallback_model: own, fallback_provider: house}
environments: {prod: {roles: {reviewer: {default_model: huge, provider: acme}}}}
"""


@pytest.fixture
def mine(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with a `models.yaml` of their own."""
    folder = tmp_path / "config" / "patchyard"
    folder.mkdir(parents=True)
    (folder / "models.yaml").write_text(MINE)
    return {"XDG_CONFIG_HOME": str(folder.parent)}


async def test_a_repositorys_roles_go_before_the_users(mine: dict[str, str]) -> None:
    catalogue = model_catalogue(mine, THEIRS)
    chosen = await choose(catalogue, role="developer", task="Document the shipping costs")
    assert chosen.shown == "acme:big, then house:own (role developer of this repository)"
    tested = await choose(catalogue, role="tester")
    assert tested.shown == "house:own (role tester)"


async def test_a_provider_that_both_name_is_where_the_user_says(mine: dict[str, str]) -> None:
    providers = model_catalogue(mine, THEIRS).providers
    assert providers["house"].base_url == "http://mine/v1"
    assert providers["acme"].api_key_env == "ACME_KEY"
    assert model_catalogue({}, THEIRS).providers["house"].base_url == "http://theirs/v1"


async def test_an_environment_may_stand_in_either_file(mine: dict[str, str]) -> None:
    def staged(name: str) -> Catalogue:
        return model_catalogue({**mine, "PATCHYARD_MODELS_ENVIRONMENT": name}, THEIRS)

    assert staged("prod").roles["reviewer"] == ("acme:huge",)
    assert staged("home").roles["tester"] == ("house:at-home",)
    with pytest.raises(UsageError, match=r"'hme'\. Did you mean 'home'"):
        staged("hme")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'providers:\n  openai: {base_url: "http://evil/v1"}\n',
            "2:3: providers.openai: openai is built in and not a repository's to change",
        ),
        (
            'providers:\n  a: {base_url: "http://a", api_key_file: /root/.ssh/id}\n',
            "2:29: providers.a.api_key_file: where a user keeps keys is not here to say",
        ),
        (
            'providers:\n  a: {base_url: "http://a", api_key_keyring: s/u}\n',
            "2:29: providers.a.api_key_keyring: where a user keeps keys",
        ),
        (
            "roles:\n  developer: {default_model: x.yaml, provider: scripted}\n",
            "2:38: roles.developer.provider: unknown model provider 'scripted'",
        ),
        (
            "roles: {develper: {default_model: a, provider: ollama}}\n",
            "1:9: roles.develper: unknown role 'develper'. Did you mean 'developer'?",
        ),
    ],
)
async def test_what_it_may_not_say_is_named_with_its_place(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        model_catalogue({}, text)
    assert caught.value.message.startswith(f".patchyard/models.yaml:{words}")
    assert caught.value.code == "bad_file"


@dataclass
class Shop:
    """A repository with a `models.yaml` that sends plans to a provider on loopback."""

    site: Worksite
    server: ChatServer
    environ: dict[str, str]

    async def typed(self, *words: str) -> tuple[int, Any, str]:
        """Type a command in the checkout; its exit code, its JSON, its other words."""
        return await agents(self.environ, *words, cwd=str(self.site.repository))


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    site = Worksite.make(tmp_path, {"greet.py": "print('helo')\n"})
    server = ChatServer(key="k-1234567")
    server.answering = lambda _: working(server)
    async with server.running() as url:
        acme = {"base_url": url, "api_key_env": "ACME_KEY"}
        chain = {"default_model": "tiny", "provider": "acme"}
        folder = site.repository / ".patchyard"
        folder.mkdir()
        body = {"providers": {"acme": acme}, "roles": {"developer": chain}}
        (folder / "models.yaml").write_text(json.dumps(body))
        environ = {
            "HOME": str(tmp_path),
            "PATCHYARD_HOME": str(tmp_path / "home"),
            "WORKSPACE_DIR": str(tmp_path / "workspaces"),
            "PATH": "/usr/bin:/bin",
            "OLLAMA_HOST": "http://127.0.0.1:9",
            "ACME_KEY": "k-1234567",
        }
        yield Shop(site, server, environ)


TASK = ("Mend the greeting", "--in", "process", "--validate", "")


@pytest.mark.service("bubblewrap")
async def test_it_counts_from_trust_on_and_is_ignored_by_name_before(shop: Shop) -> None:
    code, said, err = await shop.typed("run", *TASK)
    assert (code, said["error"]["details"]["kind"]) == (4, "no_model")
    assert "ignored from this repository's settings until `agents trust`: models.yaml" in err
    assert shop.server.requests == []
    _, before, _ = await shop.typed("model", "check")
    assert before["status"] == "error"

    _, trusted, _ = await shop.typed("trust")
    (provider,) = trusted["data"]["providers"]
    assert (provider["provider"], provider["api_key_env"]) == ("acme", "ACME_KEY")
    _, checked, _ = await shop.typed("model", "check")
    assert checked["data"]["reason"] == "role developer of this repository"
    _, roles, _ = await shop.typed("role", "show", "developer")
    assert roles["data"]["models"] == ["acme:tiny"]
    _, listed, _ = await shop.typed("model", "list")
    assert "acme" in [row["provider"] for row in listed["data"]["providers"]]
    _, doctor, _ = await shop.typed("doctor")
    assert "acme:tiny (role developer of this repository)" in json.dumps(doctor)
    code, done, err = await shop.typed("run", *TASK)
    assert (code, done["data"]["summary"]) == (0, "greets right")
    assert "models.yaml" not in err


@pytest.mark.service("bubblewrap")
async def test_a_plan_keeps_what_was_trusted_when_it_was_made(shop: Shop) -> None:
    await shop.typed("trust")
    code, made, _ = await shop.typed("run", *TASK, "--automation-profile", "manual")
    assert code == 0
    plan_id = made["data"]["plan_id"]
    (shop.site.repository / ".patchyard" / "models.yaml").write_text("roles: {}\n")
    assert (await shop.typed("plan", "strategize", plan_id))[0] == 0
    code, done, _ = await shop.typed("plan", "execute", plan_id)
    assert (code, done["data"]["state"]) == (0, "complete")
    asked = len(shop.server.requests)
    assert asked
    code, _, err = await shop.typed("run", *TASK)
    assert (code, len(shop.server.requests)) == (4, asked)
    assert "until `agents trust`: models.yaml" in err


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"roles: [a]\n", ".patchyard/models.yaml:1:1: roles: must be a mapping"),
        (b"\xff\xfe\n", ".patchyard/models.yaml is not UTF-8"),
        (b"#" * 70_000, ".patchyard/models.yaml is larger than 65,536 bytes"),
    ],
)
async def test_a_file_that_cannot_be_read_is_refused_by_check_and_by_trust(
    shop: Shop, data: bytes, words: str
) -> None:
    (shop.site.repository / ".patchyard" / "models.yaml").write_bytes(data)
    for command in (("config", "check"), ("trust",)):
        code, said, _ = await shop.typed(*command)
        assert code == 2
        assert said["error"]["message"].startswith(words)
    code, _, _ = await shop.typed("role", "list")
    assert code == 0


async def test_a_link_in_its_place_is_named_and_counts_for_nothing(shop: Shop) -> None:
    place = shop.site.repository / ".patchyard" / "models.yaml"
    place.rename(shop.site.folder / "elsewhere.yaml")
    place.symlink_to(shop.site.folder / "elsewhere.yaml")
    code, _, err = await shop.typed("config", "show")
    assert code == 0
    assert ".patchyard/models.yaml is a link, not a file" in err
