"""Placeholders: literal in every place, once, and safe in a shell whatever they hold."""

import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchyard.domain.errors import UnknownName, UsageError
from patchyard.domain.globs import fixed_folder, matches
from patchyard.domain.template import fill, fill_command, names

PARTS = [*"ab $`\"'\\!#&;|<>(){}*?[]~\n\t=%^-", "{x}", "$(", "\\'"]
TEXT = st.lists(st.sampled_from(PARTS), max_size=12).map("".join)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{x}", "{y}"),
        ("{{x}}", "{x}"),
        ("{{{x}}}", "{{y}}"),
        (r"\d{4} {2,3}", r"\d{4} {2,3}"),
        ('{"a": {"b": 1}}', '{"a": {"b": 1}}'),
        ("${{HOME}}", "${HOME}"),
        ("awk '{print $1}'", "awk '{print $1}'"),
        ("} {", "} {"),
    ],
)
def test_fills_in_names_once_and_leaves_other_braces(template: str, expected: str) -> None:
    assert fill(template, {"x": "{y}", "y": "never"}) == expected


def test_an_unknown_name_is_an_error_with_its_place_and_the_escape() -> None:
    with pytest.raises(UnknownName) as caught:
        fill("{packge}", {"package": "p"}, place="steps[1].run")
    assert "steps[1].run" in caught.value.message
    assert "'package'" in caught.value.message
    assert "{{packge}}" in caught.value.hint
    assert names("{a} {{b}} {c}") == ("a", "c")


COMMAND = "printf '%s\\0' {x} \"{x}\" '{x}' pre{x}post # a comment isn't read\nprintf '%s\\0' {x}"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(value=TEXT)
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_a_value_reaches_the_program_exactly(shell: str, value: str) -> None:
    command = fill_command(COMMAND, {"x": value})
    ran = subprocess.run([shell, "-c", command], capture_output=True, check=True, timeout=60)
    expected = [value, value, value, f"pre{value}post", value]
    assert ran.stdout.decode().split("\0")[:-1] == expected
    assert ran.stderr == b""


@pytest.mark.parametrize(
    "template",
    [
        "echo `ls {x}`",
        'echo "$(ls {x})"',
        "cat <<END\n{x}\nEND",
        "true # {x}",
        "true;#{x}",
        "echo \\{x}",
        "echo $'{x}'",
        "echo $\\\n'{x}'",
        "echo $(( {x} + 1 ))",
        "echo ${x}",
        'echo "${x}"',
        'echo "${V:-"{x}"}"',
    ],
)
def test_a_place_where_no_quoting_is_safe_is_refused(template: str) -> None:
    with pytest.raises(UsageError, match="cannot be filled in") as caught:
        fill_command(template, {"x": "v"})
    assert "variable" in caught.value.hint


@pytest.mark.parametrize(
    "template", ["echo $(ls {x})", "a#b {x}", "echo '$' {x}", "echo '${x}'", 'V={x}; echo "$V"']
)
def test_ordinary_places_are_not_refused(template: str) -> None:
    assert "v" in fill_command(template, {"x": "v"})


def test_a_nul_byte_is_refused() -> None:
    with pytest.raises(UsageError, match="NUL"):
        fill_command("echo {x}", {"x": "a\0b"})


@pytest.mark.parametrize(
    ("glob", "path", "is_named"),
    [
        ("**/*.py", "a.py", True),
        ("**/*.py", "a/b/c.py", True),
        ("*.py", "a/b.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("src/**", "src/a/b", True),
        ("**/requirements*.txt", "requirements-dev.txt", True),
        ("**/*.{py,pyi}", "x/y.pyi", True),
        ("[ab].txt", "c.txt", False),
        ("[!ab].txt", "c.txt", True),
        ("[!ab].txt", "a.txt", False),
        ("[z-a].txt", "[z-a].txt", False),
        ("**/*.js", "node_modules/x.js", False),
        ("./a.py", "a.py", True),
        ("a.py", "axpy", False),
    ],
)
def test_globs_name_paths(glob: str, path: str, *, is_named: bool) -> None:
    assert matches(glob, path) is is_named


def test_the_fixed_part_of_a_glob_is_a_folder() -> None:
    assert fixed_folder("src/lib/**/*.py") == "src/lib"
    assert fixed_folder("*.py") == ""
    assert fixed_folder("src/a.py") == "src"
