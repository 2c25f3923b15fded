import fnmatch
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.plain_names import alone
from patchyard.domain.changeset import FindingKind
from patchyard.domain.errors import UsageError
from patchyard.domain.keyfiles import is_key_file
from patchyard.domain.names import chosen_paths, refused_because
from patchyard.domain.protected import ENTRIES, is_allowed, protection

PATTERNS = [pattern for entry in ENTRIES for pattern in entry.patterns]
ROOT = Path(__file__).parents[2]
REFUSED = [
    ".git/config",
    "a/.git",
    "a/.GIT/x",
    ".git ",
    ".git.",
    "GIT~1",
    ".git::$INDEX_ALLOCATION",
    ".g\u200cit",
    "a/../b",
    "./a",
    "a//b",
    "x\\.git\\config",
]
TAKEN = [".gitignore", "git", "a.git", ".github/x", "GIT~2", "-rf", "a b", "new\nline", "\udcff"]


@pytest.mark.parametrize("path", REFUSED)
def test_names_that_git_refuses_are_named_with_the_reason(path: str) -> None:
    assert refused_because(path)


@pytest.mark.parametrize("path", TAKEN)
def test_names_that_git_takes_are_taken(path: str) -> None:
    assert refused_because(path) == ""


def test_a_link_in_place_of_gitmodules_is_refused_and_a_file_is_not() -> None:
    assert refused_because(".gitmodules", is_symlink=True)
    assert refused_because(".gitmodules") == ""


def test_git_itself_agrees(tmp_path: Path) -> None:
    def takes(path: str) -> bool:
        row = f"100644 {'1' * 40}\t{path}\0".encode("utf-8", "surrogateescape")
        command = ["git", "-c", "core.protectHFS=true", "-c", "core.protectNTFS=true"]
        subprocess.run(
            [*command, "update-index", "-z", "--index-info"],
            input=row, cwd=tmp_path, check=False, capture_output=True,
        )  # fmt: skip
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=tmp_path, check=True, capture_output=True
        )
        (tmp_path / ".git/index").unlink(missing_ok=True)
        return bool(listed.stdout)

    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, capture_output=True)

    assert [path for path in REFUSED if takes(path)] == []
    assert [path for path in TAKEN if not takes(path)] == []


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/ci.yml",
        "sub/.envrc",
        "AGENTS.md",
        "docs/claude.md",
        ".mcp.json",
        ".git-blame-ignore-revs",
        "pkg/.npmrc",
        "Jenkinsfile.release",
        "src/evil.pth",
        ".husky/pre-commit",
        ".husky",
        ".VSCODE/tasks.json",
        ".vs\u200ccode",
        ".v\u017fcode/x",
        ".envrc.",
        ".vscode ./x",
        ".envrc::$DATA",
        "a\\.vscode\\x",
        *("binding.gyp", ".pnp.cjs", "bunfig.toml", "mise.local.toml", ".mise.local.toml"),
        *(".config/mise/config.toml", ".config/mise.toml", "mise/config.toml", ".mise/config.toml"),
        *("devbox.json", "devenv.nix", "flake.nix", ".dir-locals-2.el", ".lazy.lua", ".gdbinit"),
        *(".lefthook.yml", ".lefthook.toml", "lefthook.json", ".config/lefthook.yaml"),
        *(".lefthook-local.yml", ".helix/languages.toml", "opencode.json", "opencode.jsonc"),
        *("crush.json", ".crushrc", ".openhands/setup.sh", ".kiro/hooks/x", ".qwen/settings.json"),
        *(".roomodes", "AGENT.md", "QWEN.md", ".gitpod.yml", ".builds/a.yml", ".tekton/pull.yaml"),
        *("cloudbuild.yaml", ".readthedocs.yaml", ".github/hooks/a.json", "rust-toolchain.toml"),
        *("web/package.yaml", "package.json5"),
        ".devcontainer/devcontainer.json",
    ],
)
def test_paths_that_run_by_themselves_or_steer_agents_are_protected(path: str) -> None:
    (finding,) = protection(alone(path))
    assert (finding.kind, finding.path) == (FindingKind.PROTECTED_PATH, path)


def test_each_line_of_the_list_has_a_tool_a_source_and_patterns_of_its_own() -> None:
    assert len(set(PATTERNS)) == len(PATTERNS)
    for entry in ENTRIES:
        assert entry.tool
        assert entry.does
        assert entry.patterns
        assert entry.source.startswith("https://") or Path(ROOT, entry.source).is_file()
        assert all(pattern == pattern.lower() for pattern in entry.patterns)


@given(
    st.lists(
        st.sampled_from([*PATTERNS, "a", ".env", ".env.x", "x.pth", "b.py", "*", ".y", "\n", "C"]),
        min_size=1,
        max_size=4,
    )
)
def test_a_path_fits_the_first_pattern_whose_names_it_has_in_a_row(parts: list[str]) -> None:
    names = "/".join(parts).lower().split("/")

    def fits(pattern: str) -> bool:
        wanted = pattern.removesuffix("/*").split("/")
        last = len(names) - len(wanted)
        begins = range(last + 1) if pattern.endswith("/*") else range(last, last + (last >= 0))
        rows = (names[at : at + len(wanted)] for at in begins)
        return any(all(map(fnmatch.fnmatchcase, row, wanted)) for row in rows)

    found = [finding.message for finding in protection(alone("/".join(parts)))]
    wanted = next(filter(fits, PATTERNS), "")
    assert [f"({wanted};" in message for message in found] == [True] * bool(wanted)


@pytest.mark.parametrize(
    "path", ["src/main.py", "tests/conftest.py", "Makefile", "README.md", ".config/app.toml"]
)
def test_ordinary_paths_are_not(path: str) -> None:
    assert list(protection(alone(path))) == []


def test_allowing_names_a_path_a_glob_or_a_folder() -> None:
    assert is_allowed(".envrc", (".envrc",))
    assert is_allowed(".github/workflows/ci.yml", (".github/*",))
    assert is_allowed(".github/workflows/ci.yml", (".github",))
    assert not is_allowed(".envrc", ("src/*",))


def test_lock_files_and_manifests_are_key_files() -> None:
    assert is_key_file("pyproject.toml")
    assert is_key_file("web/package-lock.json")
    assert is_key_file("requirements/dev.txt")
    assert is_key_file("deep/requirements-dev.txt")
    assert not is_key_file("src/requirements.py")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ((), ()),
        ((".",), ()),
        (("./",), ()),
        (("a", "."), ()),
        (("a/..",), ()),
        (("./a", "b/", "c//d", "e/./f", "g/../h"), ("a", "b", "c/d", "e/f", "h")),
        ((" ", ".a", "..b", "*"), (" ", ".a", "..b", "*")),
    ],
)
def test_paths_that_people_choose_are_named_as_git_names_them(
    said: tuple[str, ...], meant: tuple[str, ...]
) -> None:
    assert chosen_paths(said) == meant


@pytest.mark.parametrize("path", ["", "..", "../a", "a/../../b", "/a", "//a"])
def test_what_is_no_path_of_the_repository_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="no path in the repository"):
        chosen_paths((".", path))
