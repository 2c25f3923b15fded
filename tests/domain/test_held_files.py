"""What a proof takes from the base: settings of gates whole or in part, and changed tests."""

import json

import pytest

from patchyard.domain.anywhere import named_anywhere
from patchyard.domain.changeset import Change, ChangeStatus
from patchyard.domain.held import LINK, held_settings, held_tests, mixed
from patchyard.domain.held_parts import with_base_settings
from patchyard.domain.links import TreeLinks
from patchyard.domain.proofread import touched_proof

ADDED, MODIFIED = ChangeStatus.ADDED, ChangeStatus.MODIFIED


def change(
    path: str,
    status: ChangeStatus = MODIFIED,
    old_path: str | None = None,
    *,
    mode: str = "100644",
) -> Change:
    is_new = status == ADDED
    return Change(
        path=path,
        status=status,
        old_path=old_path,
        old_mode=None if is_new else "100644",
        old_blob=None if is_new else "old",
        mode=mode,
        blob="new",
    )


OLD = ("100644", "old")


def held(*changes: Change, allowed: tuple[str, ...] = (), further: tuple[str, ...] = ()) -> object:
    return held_settings(changes, further=further, allowed=allowed)


def test_settings_are_as_the_base_has_them_wherever_they_lie() -> None:
    found = held(
        change("ruff.toml"),
        change("web/.eslintrc.json", ADDED),
        change("deep/mypy.ini", ChangeStatus.DELETED),
        change("tox.ini.old", ChangeStatus.RENAMED, "tox.ini"),
        change("src/app.py"),
    )
    assert found == {
        "ruff.toml": OLD,
        "web/.eslintrc.json": None,
        "deep/mypy.ini": OLD,
        "tox.ini": OLD,
    }


@pytest.mark.parametrize(
    "path",
    [
        *("pytest.toml", "pkg/.pytest.toml", ".coveragerc.toml", ".pylintrc.toml"),
        *(".gitignore", "pkg/.ignore", ".editorconfig"),
        *(".npmrc", ".cargo/config.toml", ".mvn/maven.config", ".venv", "web/node_modules"),
        *("packages/tsconfig/base.json", ".eslintrc.d/base.js", "checkstyle/suppressions.xml"),
    ],
)
def test_newer_settings_files_and_what_leaves_files_out_are_held_and_named(path: str) -> None:
    assert held(change(path, ADDED)) == {path: None}
    assert touched_proof([change(path, ADDED)]) == (path,)


@pytest.mark.parametrize(
    "path",
    [
        "rust-toolchain.toml", "web/.nvmrc", "jest.setup.js", "src/setupTests.ts", ".babelrc.json",
        "build.rs", "rules/more.mk", "buildSrc/src/main/java/A.java", "settings.gradle.kts", ".env",
        "MODULE.bazel", "deno.jsonc", "mix.exs", "CTestCustom.cmake", "t/sub/a.t",
    ],
)  # fmt: skip
def test_what_steers_a_build_or_names_a_toolchain_is_named(path: str) -> None:
    assert touched_proof([change(path)]) == (path,)


@pytest.mark.parametrize(
    "path",
    ["test_harness/app/main.py", "weights/model.pth", "a.env", "mk.txt"],
)
def test_a_star_of_ours_reaches_over_no_folder(path: str) -> None:
    assert (touched_proof([change(path)]), held(change(path))) == ((), {})
    assert held_tests([change(path)], allowed=()) == {}


def test_a_pattern_of_names_knows_sets_and_what_is_not_in_them() -> None:
    fits = named_anywhere(("a[!bc].py", "[Mm]ake", "d[e"))
    assert [bool(fits.match(path)) for path in ("x/ad.py", "ab.py", "Make", "d[e", "a/d.py")] == [
        *(True, False, True, True, False)
    ]


def test_a_star_of_a_user_reaches_over_folders() -> None:
    known = change("data/deep/a.json"), change("other/b.json")
    assert held(*known, further=("data*json",)) == {"data/deep/a.json": OLD}
    assert held(*known) == {}


def test_a_stub_is_named_for_it_stands_for_its_module() -> None:
    assert touched_proof([change("shop.pyi", ADDED)]) == ("shop.pyi",)


def test_what_the_user_allowed_counts_as_it_is_and_a_gate_may_name_more() -> None:
    changes = (change("ruff.toml"), change("bench/run.py"))
    assert held(*changes, allowed=("ruff.toml",)) == {}
    assert held(*changes, further=("bench/*",)) == {"ruff.toml": OLD, "bench/run.py": OLD}


def test_settings_and_tests_are_held_by_the_names_that_links_give_and_without_case() -> None:
    before = {"ruff.toml": "conf/lint.txt", "tests": "checks", "pyproject.toml": "conf/project"}
    links = TreeLinks(before=before, after={**before, "src": "lib", ".cargo": "conf"})
    changes = [
        change(path) for path in ("conf/lint.txt", "checks/a.py", "conf/project", "lib/a.py")
    ]
    changes += [change(path, ADDED, mode=LINK) for path in ("src", ".cargo")]
    changes += [change("Justfile"), change("conf/config.toml", ADDED)]
    found = held_settings(changes, further=("LIB/*",), allowed=(), links=links)
    assert found == {
        "conf/lint.txt": OLD,
        ".cargo": None,
        "Justfile": OLD,
        "lib/a.py": OLD,
    }
    assert held_tests(changes, allowed=(), links=links) == {"checks/a.py": OLD}
    assert [each.path for each in mixed(changes, allowed=(), links=links)] == ["conf/project"]
    seen = touched_proof(changes, links)
    assert {"conf/lint.txt", "checks/a.py", "conf/project", "Justfile"} <= set(seen)


def test_a_change_does_not_hide_from_its_proof_behind_a_new_link() -> None:
    links = TreeLinks(after={"node_modules": "src", "tests": "src", "ruff.toml": "app.py"})
    made = [change(path, ADDED, mode=LINK) for path in links.after]
    changes = [*made, change("src/app.py"), change("app.py")]
    found = held_settings(changes, further=(), allowed=(), links=links)
    assert found == {"node_modules": None, "ruff.toml": None}
    assert held_tests(changes, allowed=(), links=links) == {}


def test_what_would_run_in_the_place_of_a_tool_is_not_there() -> None:
    new = [change(path, ADDED) for path in ("pytest.py", "json/__init__.py", ".venv/bin/ruff")]
    assert held(*new) == {each.path: None for each in new}
    links = [change(path, ADDED, mode=LINK) for path in ("pytest", "json")]
    assert held(*links) == {"pytest": None, "json": None}
    assert held(*(change(path, ADDED, mode=LINK) for path in ("latest", "src/pytest"))) == {}
    assert held(change("pytest", ADDED)) == {}, "a file of that name is no module"
    beside = ["src/pytest.py", "shop/json.py", "json.txt", "docs.py", "http/server.go"]
    assert held(*(change(path, ADDED) for path in beside)) == {}
    assert held(change("json.py")) == {}, "the base has one of its own"


def test_new_tests_alone_hold_nothing_and_touched_ones_bring_back_all() -> None:
    new = change("tests/test_new.py", ADDED)
    assert held_tests([new], allowed=()) == {}
    both = held_tests([new, change("tests/test_old.py")], allowed=())
    assert both == {"tests/test_new.py": None, "tests/test_old.py": OLD}
    moved = change("tests/test_b.py", ChangeStatus.RENAMED, "tests/test_a.py")
    assert held_tests([moved], allowed=()) == {"tests/test_a.py": OLD, "tests/test_b.py": None}
    assert held_tests([change("tests/test_old.py")], allowed=("tests/*",)) == {}


def test_a_new_conftest_can_steer_old_tests() -> None:
    assert held_tests([change("conftest.py", ADDED)], allowed=()) == {"conftest.py": None}


def test_a_renamed_settings_file_is_looked_at_under_both_names() -> None:
    moved = change("other.toml", ChangeStatus.RENAMED, "pyproject.toml")
    assert [each.path for each in mixed([moved], allowed=())] == ["pyproject.toml"]
    assert mixed([change("package.json")], allowed=("package.json",)) == ()


BASE = '[project]\nname = "a"\ndependencies = []\n\n[tool.ruff]\nline-length = 80\n'


def test_a_dependency_comes_through_and_a_loosened_linter_does_not() -> None:
    result = (
        '[project]\nname = "a"\ndependencies = ["x"]\n[tool.hatch]\nx = 1\n'
        '[tool.ruff]\nline-length = 500\n[tool.ruff.lint]\nignore = ["ALL"]\n'
        "[[tool.mypy.overrides]]\nignore_errors = true\n"
    )
    merged = with_base_settings("pyproject.toml", BASE, result)
    assert merged == (
        '[project]\nname = "a"\ndependencies = ["x"]\n[tool.hatch]\nx = 1\n'
        "[tool.ruff]\nline-length = 80\n"
    )


@pytest.mark.parametrize(
    "result",
    [
        "tool.ruff.line-length = 500\n",  # no header to find it by
        "[tool]\nruff = {line-length = 500}\n",
        'x = """\n[tool.ruff]\n"""\n[tool.mypy]\nstrict = false\n',  # a header that is none
        "[project\n",
        "x = " + "[" * 100_000,
    ],
)
def test_what_cannot_be_put_together_for_certain_is_the_base_s_own(result: str) -> None:
    assert with_base_settings("pyproject.toml", BASE, result) is None


def test_nothing_is_touched_where_no_setting_changed() -> None:
    result = BASE.replace('"a"', '"b"')
    assert with_base_settings("pyproject.toml", BASE, result) is result
    assert with_base_settings("pyproject.toml", BASE, "") == "[tool.ruff]\nline-length = 80\n"


def test_setup_cfg_and_package_json_are_put_together_likewise() -> None:
    base = "[metadata]\nname = a\n[flake8]\nmax-line-length = 80\n"
    result = "[metadata]\nname = b\n[flake8]\nmax-line-length = 800\n[mypy]\nignore_errors = 1\n"
    assert with_base_settings("setup.cfg", base, result) == (
        "[metadata]\nname = b\n[flake8]\nmax-line-length = 80\n"
    )
    assert with_base_settings("setup.cfg", base, base) is base
    assert with_base_settings("setup.cfg", base, "no section\n") is None
    package = {"scripts": {"test": "jest"}, "dependencies": {"x": "1"}}
    loosened = {"scripts": {"test": "true"}, "dependencies": {"x": "2"}, "jest": {"bail": 1}}
    merged = with_base_settings("package.json", json.dumps(package), json.dumps(loosened))
    assert json.loads(merged or "") == {"dependencies": {"x": "2"}, "scripts": {"test": "jest"}}
    assert with_base_settings("package.json", "[]", json.dumps(loosened)) is None
    assert with_base_settings("package.json", "", "") == ""
