"""What a repository is, by the names and sizes of its files and a few small ones."""

from collections.abc import Mapping

import pytest

from patchyard.domain.analysis import Context, Ownership, Share
from patchyard.domain.repository_context import context_of, guides_in, owners_of
from timing import require_linear


def context(files: Mapping[str, str]) -> Context:
    return context_of({path: len(text) for path, text in files.items()}, files.get)


def test_languages_tests_and_what_runs_them_are_told() -> None:
    found = context(
        {
            "pyproject.toml": "[tool.pytest.ini_options]\n",
            "shop/a.py": "x" * 30,
            "shop/b.py": "x" * 20,
            "web/c.ts": "x" * 60,
            "notes": "x" * 5,
            "tests/unit/test_a.py": "def test_a(): ...\n",
            "tests/test_b.py": "",
            "web/c.test.ts": "",
            "test_top.py": "",
            "package.json": '{"devDependencies": {"vitest": "1", "left-pad": "1"}}',
        }
    )
    assert found.languages[:2] == (
        Share(language="python", files=5, bytes=68),
        Share(language="typescript", files=2, bytes=60),
    )
    assert (found.files, found.test_files) == (10, 4)
    assert found.tests == ("tests/", "web/")
    assert found.frameworks == ("pytest", "vitest")


@pytest.mark.parametrize(
    ("files", "frameworks"),
    [
        ({"go.mod": "", "a_test.go": ""}, ("go test",)),
        ({"Cargo.toml": ""}, ("cargo test",)),
        ({"pom.xml": ""}, ("maven",)),
        ({"setup.py": "", "tests/test_a.py": "class A(TestCase): ..."}, ("unittest",)),
        ({"package.json": "[["}, ()),
        ({"package.json": "[]"}, ()),
        ({"package.json": '{"dependencies": [], "devDependencies": {"@playwright/test": 1}}'},
         ("playwright",)),
        ({}, ()),
    ],
)  # fmt: skip
def test_what_runs_tests_is_known_by_files(
    files: Mapping[str, str], frameworks: tuple[str, ...]
) -> None:
    assert context(files).frameworks == frameworks


def test_guides_for_agents_come_first_and_those_of_folders_last() -> None:
    found = guides_in(
        [
            *("docs/CONTRIBUTING.rst", "pkg/deep/AGENTS.md", "pkg/AGENTS.md", "CONTRIBUTING.md"),
            *("CLAUDE.md", "pkg/CONTRIBUTING.md", "AGENTS.md", "agents.md.bak", "x/contributing"),
        ]
    )
    assert found == (
        *("AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md", "docs/CONTRIBUTING.rst"),
        *("pkg/AGENTS.md", "pkg/deep/AGENTS.md"),
    )


OWNERS = """
# who looks at what
*                @all
*.py             @python  # all of it
/docs/           @writers
apps/            @apps
src/**/deep.c    @deep
/build/logs/*.x  @logs
[section]
/secret
"""


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("a.txt", "*"),
        ("x/y.py", "*.py"),
        ("docs/a/b.md", "/docs/"),
        ("x/docs/b.md", "*"),
        ("x/apps/b.md", "apps/"),
        ("apps", "*"),
        ("src/deep.c", "src/**/deep.c"),
        ("src/a/b/deep.c", "src/**/deep.c"),
        ("build/logs/a.x", "/build/logs/*.x"),
        ("build/logs/a/b.x", "*"),
        ("secret/a", "/secret"),
    ],
)
def test_the_last_line_that_fits_owns_a_file(path: str, pattern: str) -> None:
    found = {each.pattern: each.paths for each in owners_of(OWNERS, [path])}
    assert found[pattern] == (path,)


def test_the_line_for_everything_is_told_where_the_task_names_nothing() -> None:
    assert owners_of(OWNERS, []) == (Ownership(pattern="*", owners=("@all",)),)
    assert owners_of("a.py @a", ["b.py"]) == ()


def test_no_pattern_takes_long() -> None:
    rules = "\n".join(["/".join(["**"] * 90), "*a" * 90, "a*" * 90 + "b"])
    assert owners_of(rules + "\n" + "x" * 500, ["a" * 200, "/".join("a" * 100)])


def test_a_file_deep_down_does_not_make_many_lines_slow() -> None:
    near = "/".join(["a"] * 90) + "/x.py"
    rules = "\n".join(f"b{number} @b\nb{number}/**/x.py @b" for number in range(400))

    def owned(size: int) -> None:
        found = owners_of(f"x.py @x\n{rules}", ["/".join(["a"] * size) + "/x.py", near])
        assert near in found[0].paths

    require_linear(owned, 2000)
    assert owners_of(f"x.py @x\n{rules}", ["/".join(["a"] * 2000) + "/x.py", near]) == (
        Ownership(pattern="x.py", owners=("@x",), paths=(near,)),
    )
