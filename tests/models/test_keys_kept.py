"""Keys in files and in the keyring: read anew for each request, refused where others can read."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from models.servers import ChatServer
from patchyard.clients.yaml import parse_yaml
from patchyard.domain.errors import ModelUnavailable, UsageError
from patchyard.domain.messages import Message, ModelRequest, Speaker
from patchyard.models.configured import Reading
from patchyard.models.keyrings import Keyring
from patchyard.models.keys import Key
from patchyard.models.prices import shipped_prices
from patchyard.models.providers import Catalogue, ProviderSettings

ASKED = ModelRequest(messages=(Message(speaker=Speaker.USER, text="hello"),))


def key_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.anyio
async def test_a_key_that_was_changed_counts_from_the_next_request_on(tmp_path: Path) -> None:
    server = ChatServer(key="k-second-1234")
    path = key_file(tmp_path, "k-first-1234\n")
    async with server.running() as url:
        house = ProviderSettings(kind="openai-compatible", base_url=url, api_key_file=str(path))
        made = Catalogue(environ={}, prices=shipped_prices(), configured={"house": house})
        model = made.open("house:tiny")
        with pytest.raises(ModelUnavailable) as caught:
            await model.complete(ASKED)
        assert f"the key in the file {path} is not accepted" in caught.value.hint
        assert "k-first-1234" not in caught.value.message
        path.write_text("k-second-1234\n")
        assert (await model.complete(ASKED)).message.text == "hello"
        await model.close()
    assert "k-second-1234" in made.secrets


@pytest.mark.parametrize(("mode", "words"), [(0o640, "others can read"), (0o604, "chmod 600")])
def test_a_file_that_others_can_read_holds_no_key(mode: int, words: str, tmp_path: Path) -> None:
    key = Key(file=str(key_file(tmp_path, "k-1234", mode)))
    with pytest.raises(ModelUnavailable) as caught:
        key.headers()
    assert words in f"{caught.value.message} {caught.value.hint}"
    assert key.known == ""


def test_a_file_may_be_missing_or_be_none(tmp_path: Path) -> None:
    assert not Key(file=str(tmp_path / "none")).is_set
    with pytest.raises(ModelUnavailable, match="cannot be read"):
        Key(file=str(tmp_path)).headers()


class Vault(KeyringBackend):
    """A keyring of a test's own."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of the library
        self.kept = {("house/models", "me"): "k-kept-1234"}
        self.is_locked = False
        self.answers = threading.Event()  # cleared: it waits for a word of its user
        self.answers.set()

    def get_password(self, service: str, username: str) -> str | None:
        self.answers.wait(60)
        if self.is_locked:
            raise KeyringLocked("locked")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password


@pytest.fixture
def vault() -> Iterator[Vault]:
    before, made = keyring.get_keyring(), Vault()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


def test_the_keyring_gives_a_key_or_says_why_not(vault: Vault) -> None:
    key = Key(entry="house/models/me")
    assert key.headers() == {"authorization": "Bearer k-kept-1234"}
    assert key.hide("it is k-kept-1234") == "it is [hidden]"
    assert not Key(entry="house/other").is_set
    vault.is_locked = True
    assert key.known == "k-kept-1234"  # what was read last is hidden on
    with pytest.raises(ModelUnavailable, match="does not give house/models/me: locked"):
        Key(entry="house/models/me").headers()


@pytest.mark.anyio
async def test_a_keyring_that_waits_for_its_user_holds_nobody_else_up(vault: Vault) -> None:
    slow = Key(entry="house/models/me", keyring=Keyring(longest_s=0.05))
    vault.answers.clear()
    with pytest.raises(ModelUnavailable, match="did not answer for house/models/me within"):
        slow.headers()
    await asyncio.gather(slow.read(), slow.read())  # one question, for both
    with pytest.raises(ModelUnavailable, match="did not answer"):
        slow.headers()
    patient = Key(entry="house/models/me")
    reading = asyncio.create_task(patient.read())
    await asyncio.sleep(0)
    assert not reading.done()
    vault.answers.set()
    await reading
    assert patient.headers() == {"authorization": "Bearer k-kept-1234"}
    vault.kept["house/models", "me"] = "k-new-5678"
    await patient.read()
    assert patient.known == "k-new-5678"


@pytest.mark.anyio
async def test_a_key_of_the_keyring_is_read_anew_for_each_request(vault: Vault) -> None:
    server = ChatServer(key="k-kept-1234")
    async with server.running() as url:
        house = ProviderSettings(
            kind="openai-compatible", base_url=url, api_key_keyring="house/models/me"
        )
        made = Catalogue(environ={}, prices=shipped_prices(), configured={"house": house})
        model = made.open("house:tiny")
        await model.prepare()
        assert (await model.complete(ASKED)).message.text == "hello"
        server.key = vault.kept["house/models", "me"] = "k-second-1234"
        assert (await model.complete(ASKED)).message.text == "hello"
        assert await made.offered("house") == ("tiny",)
        await model.close()
    await made.read_keys()
    assert "k-second-1234" in made.secrets


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "keyring", None)
    with pytest.raises(ModelUnavailable) as caught:
        Key(entry="a/b").headers()
    assert ".[keyring]" in caught.value.hint


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("api_key_env: A, api_key_file: /k", "the key is said to be in api_key_env already"),
        ("api_key_file: k", "must be an absolute path"),
        ("api_key_keyring: k", "must be SERVICE/USER"),
        ("requests_per_minute: 0", "must be more than 0"),
    ],
)
def test_a_mistake_of_a_provider_is_named(body: str, words: str) -> None:
    text = f'providers: {{h: {{base_url: "http://h", {body}}}}}'
    with pytest.raises(UsageError) as caught:
        Reading().document(parse_yaml(text, name="models.yaml"))
    assert words in caught.value.message
