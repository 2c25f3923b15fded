"""A repository's own `models.yaml`: what it may say, from when on, and for how long."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite
from models.scenes import working
from models.servers import ChatServer
from models.test_model_check import agents
from patchyard.casting import model_catalogue
from patchyard.clients.glimpse import glimpse
from patchyard.configuration import repository_files
from patchyard.domain.errors import ModelUnavailable, UsageError
from patchyard.domain.trust import digest_of
from patchyard.models.choosing import choose
from patchyard.models.circuits import Circuits
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
environments:
  home:
    providers: {vault: {base_url: "http://vault/v1"}}
    roles: {tester: {default_model: at-home, provider: house}}
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


async def test_a_name_of_the_users_is_theirs_in_environments_that_do_not_count_now_too(
    mine: dict[str, str],
) -> None:
    theirs = """\
providers: {vault: {base_url: "http://theirs/v1"}}
roles: {developer: {default_model: big, provider: vault}}
"""
    assert "vault" not in model_catalogue(mine, theirs).providers
    home = {**mine, "PATCHYARD_MODELS_ENVIRONMENT": "home"}
    assert model_catalogue(home, theirs).providers["vault"].base_url == "http://vault/v1"


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
            'providers:\n  OpenAI: {base_url: "http://evil/v1"}\n',
            "2:3: providers.OpenAI: 'OpenAI' cannot name a repository's provider",
        ),
        (
            'providers:\n  a: {base_url: "http://a/?k=1"}\n',
            "2:7: providers.a.base_url: must be an address without a query",
        ),
        (
            'providers:\n  a: {kind: "a_models:Acme"}\n',
            "2:7: providers.a.kind: a repository loads no code into the engine",
        ),
        (
            "environments:\n  p:\n    providers: {a: {kind: os:system, options: {}}}\n",
            "3:21: environments.p.providers.a.kind: a repository loads no code",
        ),
        (
            'environments:\n  p:\n    providers: {a: {base_url: "http://a/${KEY:-x}"}}\n',
            "3:21: environments.p.providers.a.base_url: ${KEY:-x} is not filled in",
        ),
        (
            "roles: {developer: {default_model: '${KEY}', provider: ollama}}\n",
            "1:21: roles.developer.default_model: ${KEY} is not filled in: variables are not",
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
        model_catalogue({"KEY": "k-1234567"}, text)
    assert caught.value.message.startswith(f".patchyard/models.yaml:{words}")
    assert caught.value.code == "bad_file"


LISTED = """\
providers: {acme: {base_url: "http://acme/v1", api_key_env: ACME_KEY}}
roles:
  developer:
    default_model: gpt
    provider: openai
    task_types: {tests: {default_model: tiny, provider: acme}}
environments:
  prod:
    providers: {house: {base_url: "http://theirs/v1", api_key_env: HOUSE_KEY}}
    roles: {tester: {default_model: big, provider: house}}
"""


async def test_trust_says_all_places_that_code_may_be_sent_to(
    shop: "Shop", mine: dict[str, str]
) -> None:
    folder = shop.site.repository / ".patchyard"
    (folder / "models.yaml").write_text(LISTED)
    (folder / "x\nhouse is mine").touch()
    shop.environ |= mine
    printed = await shop.printed("trust")
    assert printed[1:] == [
        "acme is http://acme/v1, with the key in ACME_KEY",
        "developer asks openai:gpt",
        "developer for tests asks acme:tiny, then openai:gpt",
        "in environment prod house is http://theirs/v1, with the key in HOUSE_KEY",
        "in environment prod tester asks house:big",
    ]
    shop.environ["PATCHYARD_MODELS_ENVIRONMENT"] = "prod"
    for command in (("trust",), ("config", "check"), ("role", "list")):
        assert (await shop.typed(*command))[0] == 0


def spoil(mine: dict[str, str]) -> None:
    """Make a mistake in the user's own file."""
    Path(mine["XDG_CONFIG_HOME"], "patchyard", "models.yaml").write_text("roles: [x]\n")


async def test_a_mistake_in_the_users_file_does_not_keep_them_from_trusting_other_files(
    shop: "Shop", mine: dict[str, str]
) -> None:
    shop.environ |= mine
    spoil(mine)
    folder = shop.site.repository / ".patchyard"
    (folder / "models.yaml").rename(folder / "models.yml")
    code, said, _ = await shop.typed("trust")
    assert code == 2
    assert ".patchyard/models.yml is called models.yaml" in said["error"]["message"]
    (folder / "models.yml").rename(folder / "config.yaml")
    (folder / "config.yaml").write_text("limits: {max_steps: 3}\n")
    assert (await shop.typed("trust"))[0] == 0


async def test_trust_given_when_such_files_counted_for_nothing_covers_none(shop: "Shop") -> None:
    files = repository_files(glimpse(shop.site.repository, None))
    assert files.files
    assert files.digest != digest_of(files.files)


async def test_what_becomes_of_a_provider_is_not_told_of_anothers_of_that_name() -> None:
    here = model_catalogue({}, THEIRS)
    there = model_catalogue({}, THEIRS.replace("http://acme", "http://other"))
    circuits = Circuits()
    refused = ModelUnavailable("acme does not take the key", details={"status": 401})
    circuits.among(here.places).failed("acme:big", refused)
    assert circuits.among(here.places).wait_s("acme:big") is not None
    assert circuits.among(there.places).wait_s("acme:big") is None
    assert circuits.among(here.places).wait_s("house:own") is None
    limited = THEIRS.replace("ACME_KEY}", "ACME_KEY, requests_per_minute: 1}")
    for text in (limited, limited.replace("http://acme", "http://other")):
        catalogue = replace(model_catalogue({}, text), throttles=here.throttles)
        await catalogue.open("acme:big").close()
    assert len(here.throttles.known) == 2


@dataclass
class Shop:
    """A repository with a `models.yaml` that sends plans to a provider on loopback."""

    site: Worksite
    server: ChatServer
    environ: dict[str, str]

    async def typed(self, *words: str) -> tuple[int, Any, str]:
        """Type a command in the checkout; its exit code, its JSON, its other words."""
        return await agents(self.environ, *words, cwd=str(self.site.repository))

    async def printed(self, *words: str) -> list[str]:
        """Type a command; the lines it prints for people."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "patchyard", *words),
            env=self.environ,
            cwd=self.site.repository,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        return out.decode().splitlines()


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
    for command in (("model", "check"), ("model", "list"), ("role", "show", "developer")):
        _, before, err = await shop.typed(*command)
        assert "until `agents trust`: models.yaml" in err
        assert "acme" not in json.dumps(before)

    _, trusted, _ = await shop.typed("trust")
    (models,) = trusted["data"]["models"]
    assert models["providers"][0]["api_key_env"] == "ACME_KEY"
    assert models["roles"] == {"developer": ["acme:tiny"]}
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


def test_a_link_in_a_commit_counts_for_nothing_too(tmp_path: Path) -> None:
    repository = Worksite.make(tmp_path, {".patchyard/notes": ""}).repository
    (repository / ".patchyard" / "models.yaml").symlink_to("{}")
    who = ["-c", "user.name=T", "-c", "user.email=t@localhost"]
    for words in (["add", "-A"], [*who, "commit", "-qm", "a link"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    files = repository_files(glimpse(repository, "head"))
    assert list(files.files) == [".patchyard/notes"]
    assert files.obstacle.startswith(".patchyard/models.yaml is a link, not a file")
