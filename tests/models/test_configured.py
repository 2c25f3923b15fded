"""Providers of the user's `models.yaml`, and what is said of its mistakes."""

from dataclasses import replace
from pathlib import Path

import pytest

from patchyard.casting import model_catalogue
from patchyard.clients.yaml import parse_yaml
from patchyard.domain.errors import ModelUnavailable, UsageError
from patchyard.models.choosing import choose
from patchyard.models.configured import ModelsFile, Reading, read_own
from patchyard.roles.library import SHIPPED

HOUSE = """\
providers:
  house: {base_url: "http://h/v1", api_key_env: HOUSE_KEY, is_streaming: false, idle_s: 5,
    tools: false, models: {big: {tools: true}}}
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
    assert (house.has_tools("small"), house.has_tools("big")) == (False, True)
    assert providers["far"].kind == "ollama"


@pytest.mark.parametrize("text", ["", "providers:\n", "{}"])
def test_a_file_without_providers_adds_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(text)
    assert Reading().document(read_own(tmp_path / "models.yaml")) == ModelsFile()
    assert Reading().document(read_own(tmp_path / "nothing.yaml")) == ModelsFile()


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
        ('{base_url: "http://h", models: {m: {tols: true}}}', "did you mean 'tools'"),
        ('{base_url: "http://h", models: {m: {tools: 1}}}', "providers.h.models.m.tools: must be"),
        ('{base_url: "http://h", models: [m]}', "providers.h.models: must be a mapping"),
        (
            '{base_url: "http://h", limit_field: max_token}',
            "limit_field: unknown limit field 'max_t",
        ),
        ("[]", "must be a mapping, not a list"),
    ],
)
def test_a_mistake_is_named_with_its_place(body: str, words: str) -> None:
    document = parse_yaml(f"providers:\n  h: {body}\n", name="models.yaml")
    with pytest.raises(UsageError) as caught:
        Reading().document(document)
    assert words in caught.value.message
    assert caught.value.code == "bad_file"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("scripted", "2:3: providers.scripted: 'scripted' is taken"),
        ('"ho:use"', "2:3: providers.ho:use: 'ho:use' cannot name a provider"),
        ('"a b"', "cannot name a provider"),
    ],
)
def test_a_provider_that_no_name_could_mean_is_refused(name: str, words: str) -> None:
    document = parse_yaml(
        f'providers:\n  {name}: {{base_url: "http://h/v1"}}\n', name="models.yaml"
    )
    with pytest.raises(UsageError) as caught:
        Reading().document(document)
    assert words in caught.value.message


def test_an_address_with_what_is_added_to_it_has_its_cure() -> None:
    text = 'providers:\n  h: {base_url: "http://h/v1/chat/completions/"}\n'
    with pytest.raises(UsageError, match=r"2:7: providers\.h\.base_url") as caught:
        Reading().document(parse_yaml(text, name="models.yaml"))
    assert caught.value.hint == "leave /chat/completions out: it is added"


def test_a_list_of_providers_is_refused() -> None:
    with pytest.raises(UsageError, match="providers: must be a mapping"):
        Reading().document(parse_yaml("providers: [a]", name="models.yaml"))


CHAINED = """\
providers:
  house: {base_url: "http://${HOST:-h}/v1"}
roles:
  developer:
    default_model: "codellama:13b"
    provider: "ollama"
    fallback_model: "llama3.1:8b"
    fallback_provider: "resetdata"
  tester:
    default_model: ${TESTING}
    provider: house
    fallbacks: [{model: "llama3.1:8b", provider: ollama}]
environments:
  prod:
    providers: {vault: {base_url: "https://vault/v1"}}
    roles: {tester: {default_model: big, provider: vault}}
"""


def reading(**environ: str) -> Reading:
    return Reading(environ=environ, roles=SHIPPED)


def test_roles_have_chains_and_variables_are_filled_in() -> None:
    document = parse_yaml(CHAINED, name="models.yaml")
    found = reading(TESTING="qwen3-coder").document(document)
    assert found.providers["house"].base_url == "http://h/v1"
    assert found.roles == {
        "developer": ("ollama:codellama:13b", "resetdata:llama3.1:8b"),
        "tester": ("house:qwen3-coder", "ollama:llama3.1:8b"),
    }
    with pytest.raises(UsageError) as caught:
        reading().document(document)
    assert caught.value.message.startswith("models.yaml:10:5: roles.tester.default_model: the var")
    assert "TESTING:-OTHERWISE" in caught.value.hint


def test_an_environment_goes_over_the_rest_and_is_checked_though_it_does_not_count() -> None:
    document = parse_yaml(CHAINED, name="models.yaml")
    chosen = replace(reading(TESTING="t"), stage="prod").document(document)
    assert chosen.roles["tester"] == ("vault:big",)
    assert chosen.roles["developer"][0] == "ollama:codellama:13b"
    assert set(chosen.providers) == {"house", "vault"}
    with pytest.raises(UsageError) as caught:
        replace(reading(TESTING="t"), stage="pord").document(document)
    assert "(PATCHYARD_MODELS_ENVIRONMENT) 'pord'. Did you mean 'prod'?" in caught.value.message
    wrong = parse_yaml(f"{CHAINED}  dev: {{roles: {{tester: 1}}}}\n", name="models.yaml")
    with pytest.raises(UsageError, match=r"models.yaml:17:17: environments.dev.roles.tester: must"):
        reading(TESTING="t").document(wrong)


def test_the_shipped_chains_are_those_of_the_source() -> None:
    shipped = Reading(roles=SHIPPED).shipped_roles()
    assert shipped["developer"] == ("ollama:codellama:13b", "resetdata:llama3.1:8b")
    assert shipped["architect"] == ("openai:gpt-4o", "ollama:llama3.1:8b")
    assert {chain[0].partition(":")[0] for chain in (shipped["reviewer"], shipped["tester"])} == {
        "ollama"
    }


TYPED = """\
providers: {house: {base_url: "http://h/v1"}}
roles:
  developer:
    default_model: codellama
    provider: ollama
    task_types:
      documentation: {default_model: small, provider: house}
      tests:
        {default_model: codellama, provider: ollama, fallbacks: [{model: b, provider: house}]}
environments:
  prod:
    roles: {developer: {default_model: large, provider: house}}
"""


@pytest.mark.anyio
async def test_a_kind_of_task_may_have_models_of_its_own_that_go_before_the_roles(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "patchyard"
    folder.mkdir()
    (folder / "models.yaml").write_text(TYPED)
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    catalogue = model_catalogue(environ)
    written = await choose(catalogue, role="developer", task="Document the shipping costs")
    assert written.shown == (
        "house:small, then ollama:codellama (role developer, for documentation)"
    )
    tested = await choose(catalogue, role="developer", task="Add tests for the parser")
    assert tested.names == ("ollama:codellama", "house:b")
    mended = await choose(catalogue, role="developer", task="Fix the crash in the parser")
    assert (mended.names, mended.reason) == (("ollama:codellama",), "role developer")
    named = await choose(catalogue, named="a:b", role="developer", task="Document it")
    assert named.names == ("a:b",)
    prod = model_catalogue({**environ, "PATCHYARD_MODELS_ENVIRONMENT": "prod"})
    found = await choose(prod, role="developer", task="Document the shipping costs")
    assert found.names == ("house:large",)


@pytest.mark.anyio
async def test_a_role_without_models_has_the_developers_where_there_are_no_others(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "patchyard"
    folder.mkdir()
    (folder / "models.yaml").write_text(TYPED)
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "OLLAMA_HOST": "127.0.0.1:9"}
    found = await choose(model_catalogue(environ), role="architect", task="Document it")
    assert found.shown == "ollama:codellama (role developer: architect has none of its own)"
    with pytest.raises(ModelUnavailable):
        await choose(model_catalogue({"OLLAMA_HOST": "127.0.0.1:9"}), role="architect")


AGAIN = "[{model: b, provider: openai}, {model: a, provider: ollama}]"
CYCLE = f"default_model: a, provider: ollama, fallbacks: {AGAIN}"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "{develper: {}}",
            "2:4: roles.develper: unknown role 'develper'. Did you mean 'developer'?",
        ),
        ("[developer]", "roles: must be a mapping of roles, not a list"),
        ("{tester: {provider: ollama}}", "2:4: roles.tester: 'default_model' is missing"),
        ("{tester: {default_model: a}}", "roles.tester: 'provider' is missing"),
        (
            "{tester: {default_model: a, provider: olama}}",
            "2:31: roles.tester.provider: unknown model provider 'olama'. Did you mean 'ollama'?",
        ),
        (
            "{tester: {default_model: 3, provider: ollama}}",
            "default_model: must be text, not a num",
        ),
        ("{tester: {model: a, provider: ollama}}", "unknown key 'model'"),
        (
            "{tester: {default_model: a, provider: ollama, fallback_model: b}}",
            "roles.tester: 'fallback_provider' is missing",
        ),
        (
            f"{{tester: {{{CYCLE}}}}}",
            "roles.tester.fallbacks[1]: a cycle of fallbacks: ollama:a -> openai:b -> ollama:a",
        ),
        ("{tester: {default_model: a, provider: ollama, fallbacks: 1}}", "must be a list"),
        ("{tester: {default_model: a, default_model: b}}", "the key 'default_model' stands twice"),
        (
            "{tester: {default_model: a, provider: ollama, task_types: {docs: {}}}}",
            "2:62: roles.tester.task_types.docs: unknown key 'docs'",
        ),
        (
            "{tester: {default_model: a, provider: ollama, task_types: {tests: {provider: b}}}}",
            "roles.tester.task_types.tests: 'default_model' is missing",
        ),
        ("{tester: {default_model: a, provider: ollama, task_types: 1}}", "task_types: must be"),
    ],
)
def test_a_mistake_in_a_role_is_named_with_its_place(body: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        reading().document(parse_yaml(f"roles:\n  {body}\n", name="models.yaml"))
    assert words in caught.value.message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("body", "cure"),
    [
        ("{tester: qwen3-coder}", "default_model: qwen3-coder"),
        ("{tester: {default_modle: a}}", "provider, task_types"),
    ],
)
def test_a_mistake_in_a_role_has_its_cure(body: str, cure: str) -> None:
    with pytest.raises(UsageError) as caught:
        reading().document(parse_yaml(f"roles:\n  {body}\n", name="models.yaml"))
    assert cure in caught.value.hint


def test_a_chain_is_bounded() -> None:
    further = ", ".join(f"{{model: m{n}, provider: ollama}}" for n in range(8))
    body = f"{{tester: {{default_model: a, provider: ollama, fallbacks: [{further}]}}}}"
    with pytest.raises(UsageError, match="at most 8 models"):
        reading().document(parse_yaml(f"roles: {body}", name="models.yaml"))
