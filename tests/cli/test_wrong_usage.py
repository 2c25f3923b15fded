"""What a mistyped command comes to, and what a command that needs little does not load."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def agents(*arguments: str, within: str | Path = "/") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "patchyard", *arguments],
        cwd=within,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("typed", ["zzz!", "01J"])
def test_only_a_command_that_takes_further_words_names_the_newest_plan_beside_them(
    typed: str,
) -> None:
    assert f"`@last {typed}`" not in agents("plan", "status", typed).stderr
    assert f"`@last {typed}`" in agents("plan", "diff", typed).stderr


def test_where_no_server_is_named_the_hint_says_where_one_is_named(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    said = agents("mcp", "check", "nope", within=tmp_path)
    assert (said.returncode, "`mcp_servers` of your own config.yaml" in said.stderr) == (2, True)
    assert "known: none" not in said.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("rnu",), 2, "Did you mean 'run'"),
        (("plan", "statsu"), 2, "Did you mean 'status'"),
        (("plan", "show"), 2, "Did you mean 'status'"),
        (("model", "show"), 2, "Did you mean 'list'"),
        (("role", "ls"), 2, "Did you mean 'list'"),
        (("run",), 2, "Missing argument"),
        (("run", " "), 2, "the task is empty"),
        (("run", "@/no/such/file"), 2, "cannot be read"),
        (("run", "x", "--timeout", "soon"), 2, "is not a duration"),
        (("run", "x", "--timeout", "soon"), 2, "a number alone is seconds"),
        (("run", "x", "--max-steps", "-1"), 2, "--max-steps"),
        (("run", "x", "--automation-profile", "ful-auto"), 2, "full-auto"),
        (("run", "x", "--role", "develper"), 2, "Did you mean 'developer'"),
        (("run", "x", "--in", "pod"), 2, "not in this version"),
        (("run", "x", "--repo", "/proc"), 2, "not in a git repository"),
        (("plan", "status", "zzz!"), 2, "no plan id"),
        (("plan", "status", "01J"), 2, "no plan 01J"),
        (("env", "check", "contaner"), 2, "Did you mean 'container'"),
        (("env", "check", "remote"), 2, "the environment 'remote' is not in this version"),
        (("env", "probe", "remote"), 2, "the environment 'remote' is not in this version"),
        (("run", "x", "--in", "remote"), 2, "the environment 'remote' is not in this version"),
        (("env", "check", "pod"), 2, "known: container, devcontainer, host, mock"),
        (("run", "x", "--in", "bogus"), 2, "known: container, devcontainer, host, mock"),
        (("plan", "diff", "q"), 2, "`@last q`"),
    ],
)
def test_wrong_usage_is_exit_2_and_names_what_and_how(
    arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = agents(*arguments)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--in", "proces"), "Did you mean 'process'?"),
        (("--model", "olama:x"), "'ollama'?"),
        ((), "has no commit yet"),
    ],
)
def test_nothing_is_served_that_no_plan_could_be_made_with(
    arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    done = agents("mcp", "serve", *arguments, within=tmp_path)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_the_help_of_a_place_says_what_counts_where_nothing_is_said() -> None:
    told = " ".join(agents("plan", "use", "--help").stdout.split())
    assert "else what project and settings say, and host where none does" in told
    assert "host (default)" not in told


@pytest.mark.parametrize("before", [("env", "check"), ("run", "x", "--in"), ()])
def test_a_name_of_any_length_is_repeated_in_part(before: tuple[str, ...]) -> None:
    done = agents(*before, "k" * 100_000, "--format", "json")
    assert (done.returncode, "(100,000 characters)" in done.stdout) == (2, True)
    assert len(done.stdout) + len(done.stderr) < 4000


def test_wrong_usage_is_an_object_for_programs_too() -> None:
    done = agents("plan", "frobnicate", "--format", "json")
    body = json.loads(done.stdout)
    assert (done.returncode, body["exit_code"], body["error"]["code"]) == (2, 2, "usage")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv=['agents','--help']\n"
        "from patchyard.cli.main import agents\n"
        "agents.main(standalone_mode=False)\n"
        "print([m for m in ('asyncio','pydantic','httpx2','rich','ruamel') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("name", "heavy"),
    [
        ("invariant", ("patchyard.assembly",)),
        ("plan", ("patchyard.assembly", "patchyard.domain.plan")),
        ("project", ("patchyard.assembly",)),
        ("resource", ("patchyard.assembly",)),
    ],
)
def test_a_list_of_what_is_kept_loads_no_engine(name: str, heavy: tuple[str, ...]) -> None:
    code = (
        f"import sys; sys.argv=['agents','{name}','list','--format','json']\n"
        "from patchyard.cli.main import agents\n"
        "try: agents.main(standalone_mode=False)\n"
        f"finally: print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
