"""What a command names, and what the files that it names lead to."""

import json

import pytest

from patchyard.domain.gate_words import (
    COMPILED,
    SCRIPTED,
    is_source,
    leads_on,
    may_lead_on,
    named_among,
    text_of_variable,
    words_of,
)
from patchyard.domain.languages import ENDINGS
from patchyard.domain.repository_context import LANGUAGES

NO_CODE = {".css", ".html", ".md", ".rst", ".scss", ".sh", ".sql"}


def test_what_a_language_is_told_by_is_source_code_to_a_gate() -> None:
    assert not COMPILED & SCRIPTED
    assert {*LANGUAGES} - (COMPILED | SCRIPTED) == NO_CODE
    assert [ending for ending in ENDINGS if not is_source(f"a{ending}")] == []


MAKEFILE = """PY = python3
include rules/more.mk
-include local.mk
.PHONY: test run
test: lint unit
\t$(PY) run_tests.py \\
\t\t--golden golden.txt
unit:
\tsh unit.sh
run:
\tpython app.py
"""


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("sh check.sh", ["check.sh"]),
        ("sh ./check.sh", ["check.sh"]),
        ("sh Check.SH", ["check.sh"]),
        ("cd tools && sh check.sh", ["tools/check.sh"]),
        ("make -C tools test", []),
        ("sh -c 'exec \"$PWD\"/tools/check.sh'", ["tools/check.sh"]),
        ("tools/check --out {report}", ["tools/check"]),
        ("python3 -m tools.check", ["tools/check.py"]),
        ("python3 -m tools", ["tools/__main__.py"]),
        ("node run", ["run.js"]),
        ("diff out.txt golden/out.txt", ["golden/out.txt"]),
        ("for t in checks/*.sh; do sh $t; done", ["checks/a.sh"]),
        ("ruff check src/*.py", []),
        ("eslint index.js", []),
        ("npx eslint --max-warnings 0 -- index.js lib/rules.js", []),
        ("CI=1 && .venv/bin/mypy main.py; true", []),
        ("eslint --config lib/rules.js index.js", ["lib/rules.js"]),
        ("eslint --rulesdir=lib/rules.js index.js", ["lib/rules.js"]),
        ("eslint index.js && node index.js", ["index.js"]),
        ("eslint index.js | node lib/rules.js", ["lib/rules.js"]),
        ("eslint $(node index.js)", ["index.js"]),
        ("eslint `node index.js --fix`", ["index.js"]),
        ('eslint "$(node index.js --fix)"', ["index.js"]),
        ("npm run eslint index.js", ["index.js"]),
        ("tools/eslint index.js", ["index.js"]),
        ("python3 tools/check.py && ruff check main.py", ["tools/check.py"]),
        ("cc main.c -o main && ./main", []),
        ("pytest -q", []),
        ("sh test", []),
        ("python3 -c 'import run; run.go()'", []),
        ("", []),
    ],
)
def test_a_command_names_files_of_the_tree(command: str, paths: list[str]) -> None:
    known = (
        *("check.sh", "tools/check.sh", "tools/check", "tools/check.py", "tools/__main__.py"),
        *("run.js", "golden/out.txt", "checks/a.sh", "src/app.py", "main.c", "src/test", "q"),
        *("index.js", "lib/rules.js", "main.py"),
    )
    found = sorted(named_among(known, words_of(command).words))
    assert set(paths) <= set(found)
    near = {"check.sh", "tools/check.sh", "tools/check.py"}  # in any folder, or with an ending
    assert set(found) - set(paths) <= near


@pytest.mark.parametrize(
    ("words", "kept", "left"),
    [
        ({"make", "test"}, ["run_tests.py", "unit.sh", "local.mk", "golden.txt"], ["app.py"]),
        ({"make"}, ["local.mk", "rules/more.mk"], ["app.py"]),
        ({"make", "run"}, ["app.py", "local.mk"], ["unit.sh"]),
    ],
)
def test_a_makefile_leads_to_what_its_targets_need(
    words: set[str], kept: list[str], left: list[str]
) -> None:
    names = words_of(leads_on("Makefile", MAKEFILE, words)).words
    assert set(kept) <= set(names)
    assert not set(left) & set(names)


def test_scripts_of_a_package_lead_to_those_they_start() -> None:
    scripts = {"test": "npm run u:x", "u:x": "node run", "preu:x": "sh p.sh", "start": "node a.js"}
    text = json.dumps({"scripts": scripts})
    for word in ("test", "t"):
        words = set(words_of(leads_on("web/package.json", text, {"npm", word})).words)
        assert {"p.sh", "run"} <= words
        assert "a.js" not in words
    assert words_of("npm --prefix web test").starting == ("package.json", "web/package.json")


PYPROJECT = """[project]
readme = "README.md"
[tool.pytest.ini_options]
addopts = "-p tools.plugin --data cases.csv"
[tool.ruff]
extend-exclude = ["old.py"]
["tool".hatch.envs.default.scripts]
test = "python verify.py"
"""


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ({"pytest"}, {"tools/plugin.py", "cases.csv"}),
        ({"hatch", "run", "test"}, {"verify.py"}),
        ({"poe"}, set()),
    ],
)
def test_settings_of_python_lead_on_by_the_sections_of_a_program(
    words: set[str], kept: set[str]
) -> None:
    every = {"README.md", "tools/plugin.py", "cases.csv", "old.py", "verify.py"}
    text = leads_on("pyproject.toml", PYPROJECT, words)
    assert named_among(every, words_of(text).words) == kept


def test_settings_of_a_runner_lead_to_what_they_load() -> None:
    started = words_of("mocha --exit").starting
    assert {".mocharc.yml", "package.json"} <= {*started}
    text = leads_on(".mocharc.yml", "require: ./hooks/all\n", {"mocha"})
    assert "hooks/all.js" in words_of(text).words
    package = json.dumps({"jest": {"setupFiles": ["<rootDir>/start.js"]}, "scripts": {"a": "b"}})
    assert "start.js" in words_of(leads_on("package.json", package, {"jest"})).words
    assert leads_on("package.json", package, {"mocha"}) == ""


@pytest.mark.parametrize("text", ["", "[]", "{", '{"scripts": 3}', "[" * 100_000])
def test_a_wrong_package_leads_nowhere(text: str) -> None:
    assert leads_on("package.json", text, {"npm", "test"}) == ""


@pytest.mark.parametrize(
    "text",
    [
        "a" * 250_000,
        ":".join(map(str, range(40_000))),
        " ".join(f"cd d{n}" for n in range(20)) + " " + ":".join(f"{n}.sh" for n in range(12_000)),
        " ".join(f"t{n}" for n in range(4000)) + ":" + "\n" * 4000,
        "\n".join(f"t{n}: t{n + 1}" for n in reversed(range(20_000))),
        "a " * 125_000,
        "a: " * 80_000,
        "\t" * 250_000,
        "cd x; " * 40_000,
        "*? " * 80_000,
    ],
    ids=[
        "word",
        "colons",
        "folders of many",
        "targets",
        "chain",
        "words",
        "rules",
        "tabs",
        "folders",
        "globs",
    ],
)
def test_a_long_file_is_read_in_its_own_length(text: str) -> None:
    further = leads_on("Makefile", text, {"make"})
    assert len(words_of(further).words) <= 50_000
    assert named_among(["b/c.txt"] * 1000, words_of(text).words) <= {"b/c.txt"}


def test_shells_are_followed_and_programs_are_not() -> None:
    assert leads_on("tools/check", "#!/usr/bin/env bash\n. lib.sh\n", set())
    assert not leads_on("tools/check", "#!/usr/bin/env python3\nimport lib\n", set())
    assert not leads_on("check.py", "#!/bin/sh\n. lib.sh\n", set())
    assert may_lead_on("tools/check")
    assert not may_lead_on("check.py")


@pytest.mark.parametrize("word", ["ci", "install", "i"])
def test_an_install_leads_to_the_scripts_that_npm_runs_then(word: str) -> None:
    text = '{"scripts": {"postinstall": "node tools/after.js", "prepare": "sh tools/make.sh"}}'
    assert {"tools/after.js", "tools/make.sh"} <= {
        *words_of(leads_on("package.json", text, ("npm", word))).words
    }
    assert leads_on("package.json", text, ("npm", "start")) == ""


@pytest.mark.parametrize(
    ("name", "value", "paths"),
    [
        ("BASH_ENV", "tools/env.sh", ["tools/env.sh"]),
        ("LD_PRELOAD", "./lib/x.so:lib/y.so", ["lib/x.so", "lib/y.so"]),
        ("MAKEFLAGS", "-f rules.mk", ["Makefile", "rules.mk"]),
        ("PYTEST_PLUGINS", "plug,tools.more", ["plug.py", "tools/more.py"]),
        ("PYTEST_ADDOPTS", "-q -p tools.more", ["tools/more.py"]),
        ("DJANGO_SETTINGS_MODULE", "shop.settings", ["shop/settings.py"]),
        ("NODE_OPTIONS", "--require ./register -r=./lib/a.js", ["lib/a.js", "register.js"]),
        ("NODE_OPTIONS", "--import=./lib/a.js", ["lib/a.js"]),
        ("PERL5OPT", "-Ilib -MShop::Wide", ["Shop/Wide.pm"]),
        ("RUBYOPT", "-W0 -r./lib/wide -rset", ["lib/wide.rb"]),
        ("APP_ENV", "api", []),
    ],
)
def test_a_variable_names_what_programs_load_by_it(name: str, value: str, paths: list[str]) -> None:
    known = (
        *("tools/env.sh", "lib/x.so", "lib/y.so", "rules.mk", "plug.py", "tools/more.py"),
        *("shop/settings.py", "register.js", "lib/a.js", "Shop/Wide.pm", "lib/wide.rb"),
        *("src/api.py", "src/app.py", "Makefile"),
    )
    named = words_of(text_of_variable(name, value))
    found = named_among(known, (*named.words, *named.starting))
    assert sorted(found) == sorted(paths)
