"""Features of a devcontainer: what a repository's own ones may say, and what counts of an image."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from patchyard.domain.devcontainer import Devcontainer, Sight, parse_devcontainer
from patchyard.domain.errors import GuardRefused, UsageError
from patchyard.domain.features import (
    CREATING,
    WEAKENING,
    commands_in,
    own_folders,
    parse_metadata,
    weakening_in,
)
from written import Written

PATH = ".devcontainer/devcontainer.json"
ASKS: Mapping[str, Any] = {
    "privileged": True,
    "capAdd": ["SYS_PTRACE"],
    "securityOpt": ["seccomp=unconfined"],
    "mounts": ["source=/,target=/host,type=bind"],
    "init": True,
    "entrypoint": "/opt/start",
}


def files(**features: Mapping[str, Any]) -> Written:
    """A repository with these features of its own, by the name of their folder."""
    texts = {}
    for name, body in features.items():
        texts[f".devcontainer/{name}/devcontainer-feature.json"] = json.dumps(body)
        texts[f".devcontainer/{name}/install.sh"] = "#!/bin/sh\n"
    return Written(texts)


def read(
    said: Any, there: Written, *, is_trusted: bool = False, path: str = PATH, **further: Any
) -> Devcontainer:
    body = {"image": "i", "features": said, **further}
    sight = Sight(
        path=path,
        checkout="/src/shop",
        is_trusted=is_trusted,
        local={"LANG": "en"}.get,
        files=there,
    )
    return parse_devcontainer(json.dumps(body), sight)


def test_its_installer_is_told_of_features_and_commands_and_of_nothing_else() -> None:
    found = read(
        {"./b": {"size": "${localWorkspaceFolderBasename}", "on": True}, "./a": "1"},
        files(a={"dependsOn": {"./c": {}}}, b={"options": {"size": {}, "on": {}}}, c={}),
        remoteUser="vscode",
        overrideFeatureInstallOrder=["./b"],
        postCreateCommand=["made", "${localWorkspaceFolderBasename}"],
        customizations={"vscode": {}},
        init=True,
    )
    assert found.extension is not None
    assert json.loads(found.extension.text) == {
        "features": {"./b": {"size": "shop", "on": True}, "./a": "1"},
        "overrideFeatureInstallOrder": ["./b"],
        "postCreateCommand": {"0": "made 'shop'"},
        "remoteUser": "vscode",
    }
    folders = (".devcontainer/b", ".devcontainer/a", ".devcontainer/c")
    assert (found.features, found.extension.folders) == (("./a", "./b"), folders)
    assert read({}, files()).extension is None


def test_every_key_that_asks_for_more_is_tried() -> None:
    assert set(ASKS) == set(WEAKENING)


@pytest.mark.parametrize("key", WEAKENING)
def test_what_a_feature_asks_of_its_container_is_refused_and_counts_for_nothing(key: str) -> None:
    there = files(deep={key: ASKS[key]}, top={"dependsOn": {"./deep": {}}})
    with pytest.raises(GuardRefused, match=rf"says {key} of ./deep, which an untrusted"):
        read({"./top": {}}, there)
    assert read({"./top": {}}, there, is_trusted=True).passed_over == (f"{key} of ./deep",)
    assert read({"./deep": {}}, files(deep={key: None})).passed_over == ()


@pytest.mark.parametrize("name", ["ghcr.io/x/go:1", "https://h/x.tgz", "node"])
def test_only_a_trusted_repository_has_features_fetched(name: str) -> None:
    there = files(own={"dependsOn": {name: {}, "./b": {"of": "it"}}}, b={"options": {"of": {}}})
    for each in (name, "./own"):
        said: Mapping[str, Any] = {each: {}}
        with pytest.raises(GuardRefused, match=f"says the feature {name}, which an untrusted"):
            read(said, there)
        assert read(said, there, is_trusted=True).passed_over == ()


def test_the_order_of_features_is_asked_for_elsewhere_too() -> None:
    far = "ghcr.io/x/y"
    before = files(own={"installsAfter": ["./other", far]})
    with pytest.raises(GuardRefused, match=f"says the feature {far}, which an untrusted"):
        read({"./own": {}}, before)
    with pytest.raises(GuardRefused, match=f"says the feature {far}, which an untrusted"):
        read({"./own": {}}, files(own={}), overrideFeatureInstallOrder=["./own", far])
    assert read({"./own": {}}, before, is_trusted=True).passed_over == ()
    for path in ("../../x", "/etc", "../own"):
        with pytest.raises(UsageError, match=r"overrideFeatureInstallOrder: .*(outside|not lie)"):
            read({"./own": {}}, files(own={}), overrideFeatureInstallOrder=[path], is_trusted=True)


def test_only_what_the_installer_takes_for_a_path_is_one_of_the_repositorys_own() -> None:
    with pytest.raises(GuardRefused, match=r"says the feature \.@host/x/y, which an untrusted"):
        read({".@host/x/y": {}}, files(**{".@host/x/y": {}}))


@pytest.mark.parametrize("word", ["localEnv", "env"])
def test_a_feature_learns_no_variable_of_this_machine(word: str) -> None:
    there = files(own={"containerEnv": {"T": f"${{{word}:LANG}}"}})
    with pytest.raises(GuardRefused, match=rf"says \${{{word}:LANG}} in containerEnv.T of \S+own/"):
        read({"./own": {}}, there)
    assert read({"./own": {}}, there, is_trusted=True).passed_over == ()


OWN = files(a={"options": {"size": {"enum": ["s", "m"]}, "flag": {"type": "boolean"}}})


@pytest.mark.parametrize(
    ("said", "there", "words"),
    [
        ({"./none": {}}, OWN, "features../none: .devcontainer/none is not there, and a feature"),
        ({"../../x": {}}, OWN, "../../x lies outside of the repository"),
        ({"/etc": {}}, OWN, "/etc lies outside of the repository"),
        ({"../own": {}}, OWN, "own does not lie in .devcontainer"),
        ({"./l": {}}, Written({}, (".devcontainer/l",)), ".devcontainer/l is a link, and"),
        (
            {"./a": {}},
            Written({".devcontainer/a/devcontainer-feature.json": "{}"}),
            "install.sh is not there, and a feature needs that file",
        ),
        (
            {"./a": {}},
            Written(OWN.texts, (".devcontainer/a/install.sh",)),
            "install.sh is a link, and a feature",
        ),
        ({"./a": {"sizes": "s"}}, OWN, "unknown option 'sizes'; did you mean 'size'?"),
        ({"./a": {"size": "xl"}}, OWN, "features../a.size: 'xl' is none of s, m"),
        ({"./a": {"flag": 3}}, OWN, "must be text, true or false, not a number"),
        ({"./a": ["s"]}, OWN, "must be an object of options, not a list"),
        ({"./a": {}}, files(a={"dependsOn": ["./b"]}), "a.dependsOn: must be an object"),
        ({"./a": {}}, files(a={"installsAfter": "x"}), "a.installsAfter: must be a list of texts"),
        (
            {"./a": {}},
            files(a={"installsAfter": ["./b", "../x"]}),
            "a.installsAfter: x does not lie in .devcontainer",
        ),
        ({"./a": {}}, files(a={"id": "../../x"}), "a.id: '../../x' is no name of a feature"),
        ({"./a": {}}, files(a={"id": ["x"]}), "a.id: ['x'] is no name of a feature"),
        ({"./a": {}}, files(a={"__proto__": {"id": "x"}}), "a.__proto__: is no key of a feature"),
        (
            {"./a": {}},
            files(a={"dependsOn": {"./b": {}}}, b={"dependsOn": {"./a": {}}}),
            "depend on each other in a circle: ./a → ./b → ./a",
        ),
        (["./a"], OWN, "features: must be an object, not a list"),
    ],
)
def test_what_does_not_fit_is_named(said: Any, there: Written, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(said, there)
    assert refused.value.message.startswith(f"{PATH}: ")
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"id": "a"', "a/devcontainer-feature.json:1:11: "),
        ("[]", "a/devcontainer-feature.json must be an object, not a list"),
        ('{"id": "a" // x\r, "dependsOn": ["x"]}', "a.dependsOn: must be an object"),
    ],
)
def test_a_feature_that_cannot_be_read_is_named(text: str, words: str) -> None:
    there = Written({**OWN.texts, ".devcontainer/a/devcontainer-feature.json": text})
    with pytest.raises(UsageError) as refused:
        read({"./a": {}}, there)
    assert words in refused.value.message


class Huge(Written):
    """Files that are too large to be read."""

    def read(self, path: str) -> bytes | None:
        """None of them."""


def test_a_feature_that_is_too_large_is_named() -> None:
    with pytest.raises(UsageError, match="cannot be read, or is too large"):
        read({"./a": {}}, Huge(OWN.texts))


def test_trust_is_bound_to_what_features_of_the_repository_say() -> None:
    there = files(a={"dependsOn": {"./b": {}}}, b={"id": "b"}, c={})
    text = '{"features": {"./a": {}} /* and no more */}'
    assert own_folders(text, PATH, there) == [".devcontainer/a", ".devcontainer/b"]
    for odd in ('{"features": {"./none": {}}}', '{"features": []}', "[]", "{"):
        assert own_folders(odd, PATH, there) == []


def test_commands_of_features_come_first_at_each_hook() -> None:
    said = [
        {"id": "./b", "postCreateCommand": {"x": ["b", "made"]}, "onCreateCommand": "b on"},
        {"id": "./a", "postCreateCommand": "a ${containerWorkspaceFolder} ${HOME} ${localEnv:X:d}"},
        {"postCreateCommand": {"0": "own"}, "onCreateCommand": {"0": "own on"}},
    ]
    metadata = parse_metadata(json.dumps([*said, "no entry"]))
    said.append({"onCreateCommand": " ", "postCreateCommand": "${localEnv:NONE}"})
    known = {"containerWorkspaceFolder": "/w"}
    expected = ("b on", "own on", "b made", "a /w ${HOME} d", "own")
    assert commands_in(metadata, CREATING, known) == expected
    assert parse_metadata('{"id": "one"}') == [{"id": "one"}]
    with pytest.raises(UsageError, match="is no JSON"):
        parse_metadata("no")
    with pytest.raises(UsageError, match="is no JSON"):
        parse_metadata("[" * 100_000)
    assert weakening_in([{"id": "x", "capAdd": ["A"], "init": False}, {"capAdd": ["B"]}]) == [
        "capAdd of x"
    ]
