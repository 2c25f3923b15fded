"""Providers of the user's `models.yaml`, and what is said of its mistakes."""

from pathlib import Path

import pytest

from patchyard.casting import model_catalogue
from patchyard.clients.yaml import parse_yaml
from patchyard.domain.errors import UsageError
from patchyard.models.configured import ModelsFile, Reading

HOUSE = """\
providers:
  house: {base_url: "http://h/v1", api_key_env: HOUSE_KEY, is_streaming: false, idle_s: 5}
  far: {kind: ollama, base_url: "http://far:11434"}
roles:
  developer: {default_model: "codellama:13b", provider: ollama}
"""


def test_a_file_states_providers_and_may_state_roles(tmp_path: Path) -> None:
    folder = tmp_path / "patchyard"
    folder.mkdir()
    (folder / "models.yaml").write_text(HOUSE)
    providers = model_catalogue({"XDG_CONFIG_HOME": str(tmp_path)}).providers
    assert {"house", "far", "ollama", "openai"} <= set(providers)
    house = providers["house"]
    assert (house.kind, house.api_key_env, house.idle_s) == ("openai-compatible", "HOUSE_KEY", 5)
    assert not house.is_streaming
    assert providers["far"].kind == "ollama"


@pytest.mark.parametrize("text", ["", "providers:\n", "{}"])
def test_a_file_without_providers_adds_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(text)
    assert Reading().file(tmp_path / "models.yaml") == ModelsFile()
    assert Reading().file(tmp_path / "nothing.yaml") == ModelsFile()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("{api_key: x}", "did you mean 'api_key_env'"),
        ('{base_url: "ftp://h"}', "models.yaml:2:7: providers.h.base_url: must be the endpoint"),
        ('{base_url: "http://me:pw@h"}', "must be the endpoint"),
        ("{}", "must be the endpoint"),
        ('{base_url: "http://h", context_tokens: true}', "must be a number, not true or false"),
        ('{base_url: "http://h", kind: other}', "there is no kind 'other'"),
        ('{base_url: "http://h", api_key_env: "sk-1 2"}', "must be the name of a variable"),
        ('{base_url: "http://h", context_tokens: -1}', "context_tokens: must be more than 0"),
        ('{base_url: "http://h", idle_s: .nan}', "idle_s: must be more than 0"),
        ("[]", "must be a mapping, not a list"),
    ],
)
def test_a_mistake_is_named_with_its_place(body: str, words: str) -> None:
    document = parse_yaml(f"providers:\n  h: {body}\n", name="models.yaml")
    with pytest.raises(UsageError) as caught:
        Reading().document(document)
    assert words in caught.value.message
    assert caught.value.code == "bad_file"


def test_a_list_of_providers_is_refused() -> None:
    with pytest.raises(UsageError, match="providers: must be a mapping"):
        Reading().document(parse_yaml("providers: [a]", name="models.yaml"))
