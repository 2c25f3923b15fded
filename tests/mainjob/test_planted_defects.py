"""Gates on real tools: planted defects stop a plan with the right finding, old ones do not."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mainjob.driver import Answer, Desk, git, shell, write

pytestmark = [pytest.mark.service("bubblewrap"), pytest.mark.timeout(600)]  # eight gates, twice

#: A busy machine may take some times as long; what is planted takes it dozens of times.
SPEED = "python3 -c 'import shop; [shop.double(n) for n in range(60000)]'"
GATES = f"""
gates:
  tests: pytest
  lint: ruff
  types: mypy
  secrets: secrets
  licences: licences
  security: ruff-security
  coverage: coverage
  speed: {{use: performance, command: "{SPEED}", repeats: 3, threshold: 6}}
"""
SECRET = "hQ7x92" + "Lmz01pTt"  # fmt: skip
# Each gate has an old defect here: it must not count.
BASE = {
    ".patchyard/config.yaml": GATES,
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
    "shop.py": '''"""A shop."""

import os
import sqlite3

password = "SECRET"


def double(n: int) -> int:
    """Return twice n."""
    return n * 2


def old(db: sqlite3.Connection, name: str) -> int:
    db.execute("select * from users where name = '" + name + "'")
    return name
'''.replace("SECRET", SECRET),
    "vendor/one.py": "# SPDX-License-Identifier: LGPL-2.1-only\n",
    "tests/test_shop.py": """import shop


def test_double() -> None:
    assert shop.double(5) == 10


def test_that_fails_since_long() -> None:
    assert shop.double(1) == 3
""",
}
HARMLESS = (
    BASE["shop.py"]
    .replace("import os\n", "# moved down\n\n\nimport os\n")
    .replace("return n * 2", "return 2 * n")
)
PLANTED = '''"""A shop."""

import sqlite3
import os
import json


def old(n: int) -> str:
    return "x"


def double(n: int) -> int:
    """Return twice n."""
    total = 0
    for _ in range(1000):
        total += n
    return 2 * n + 1


def find(db: sqlite3.Connection, name: str) -> int:
    db.execute("delete from users where name = '" + name + "'")
    token = "SECRET"
    return name.upper()
'''


def base(desk: Desk, files: Mapping[str, str]) -> None:
    for path, content in files.items():
        place = desk.repo / path
        place.parent.mkdir(exist_ok=True, parents=True)
        place.write_text(content)
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "a shop")


def run(desk: Desk, *replies: Mapping[str, Any], options: tuple[str, ...] = ()) -> Answer:
    """Run a task with the tools of this test-suite on the user's PATH."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = f"scripted:{desk.script(*replies)}"
    words = ("run", "a task", "--model", script, "--setup", "", "--rounds", "0", *options)
    return desk.agents(*words, environ={"PATH": tools})


def gates(said: Answer) -> dict[str, Any]:
    return {row["name"]: row for row in said.data["validation"]}


def found(row: Mapping[str, Any]) -> set[tuple[str, int | None, str]]:
    return {(each["path"], each["line"], each["rule"]) for each in row["findings"]}


def test_a_new_module_below_src_that_nothing_runs_lowers_the_coverage(desk: Desk) -> None:
    tests = "import sys\n\nsys.path.insert(0, 'src')\n\n\ndef test_x():\n    import shop.old\n"
    files = {"src/shop/__init__.py": "", "src/shop/old.py": "X = 1\n", "tests/test_x.py": tests}
    base(desk, {".patchyard/config.yaml": "gates: {coverage: coverage}\n", **files})
    said = run(desk, write("src/shop/new.py", "def untested(a):\n    b = a + 1\n    return b\n"))
    row = gates(said)["coverage"]
    assert (said.code, row["status"]) == (1, "failed")
    assert found(row) == {("src/shop/new.py", 1, "coverage")}


def test_each_planted_defect_is_found_in_its_file_and_line(desk: Desk) -> None:
    without = {path: text for path, text in BASE.items() if not path.startswith("vendor")}
    base(desk, without)

    said = run(
        desk,
        write("shop.py", PLANTED.replace("SECRET", SECRET[::-1])),
        write("COPYING", "GNU GENERAL PUBLIC LICENSE\nVersion 3\n"),
    )

    assert (said.code, said.data["state"]) == (1, "constrained"), said.message
    rows = gates(said)
    assert {name: row["status"] for name, row in rows.items()} == dict.fromkeys(rows, "failed")
    assert found(rows["tests"]) == {("tests/test_shop.py", 5, "failed")}
    assert ("shop.py", 5, "F401") in found(rows["lint"])
    assert found(rows["types"]) == {("shop.py", 23, "return-value")}
    assert found(rows["secrets"]) == {("shop.py", 22, "named-secret")}
    assert ("shop.py", 21, "S608") in found(rows["security"])
    assert found(rows["licences"]) == {("COPYING", 1, "copyleft")}
    assert ("shop.py", 21, "coverage") in found(rows["coverage"])
    assert {each["rule"] for each in rows["speed"]["findings"]} == {"slower"}
    assert "8 of 8 gates" in said.message
    assert SECRET[::-1] not in str(rows["secrets"])


def test_old_defects_in_the_base_stop_nothing_wherever_they_move(desk: Desk) -> None:
    base(desk, BASE)

    said = run(
        desk,
        write("shop.py", HARMLESS),
        shell("cp vendor/one.py vendor/two.py"),
    )

    assert said.code == 0, (said.message, said.data["validation"])
    rows = gates(said)
    old = {name: row["old"] for name, row in rows.items() if row["old"]}
    assert old == {"tests": 1, "lint": 1, "types": 1, "security": 2}
    assert rows["tests"]["before"]["passed"] is False
    assert rows["licences"]["notes"] == ["the base has such already"]
    assert said.data["proven_tree"] == said.data["changeset"]["tree"]
    assert said.data["receipt"]["verdict"] == "proven"
    page = desk.folder / "receipt.md"
    assert desk.agents("plan", "export", "--to", str(page)).code == 0
    assert "| `types` | failed | passed | 0 | 1 |" in page.read_text()


def test_a_credential_is_found_among_thousands_of_files_and_in_text_that_git_calls_binary(
    desk: Desk,
) -> None:
    base(desk, {".patchyard/config.yaml": "gates: {secrets: secrets}\n", "empty": ""})
    plant = (
        f"mkdir a; for n in $(seq 2000); do echo $n > a/$n; done\n"
        f"echo 'password = \"{SECRET}\"' > late.py\n"
        f"printf 'one\\npassword = \"{SECRET}\"\\n\\0' > nul.txt\n"
        f"echo 'password = \"{SECRET}\"' | python3 -c 'import sys; sys.stdout.buffer.write("
        f'sys.stdin.read().encode("utf-16"))\' > wide.txt\n'
        f"printf '\\377\\0password = \"{SECRET}\"' > picture.png"
    )

    said = run(desk, shell(plant))

    assert found(gates(said)["secrets"]) == {
        ("late.py", 1, "named-secret"),
        ("nul.txt", 2, "named-secret"),
        ("wide.txt", 1, "named-secret"),
    }


def test_an_old_error_of_syntax_stops_nothing_and_a_new_one_is_found(desk: Desk) -> None:
    config = "gates: {format: ruff-format, types: mypy}\n"
    base(desk, {".patchyard/config.yaml": config, "old.py": 'print "old"\n'})

    said = run(desk, write("fine.py", "PRICE = 10\n"))
    assert said.code == 0, (said.message, said.data["validation"])
    assert {name: row["old"] for name, row in gates(said).items()} == {"format": 1, "types": 1}

    said = run(desk, write("an.py", 'print "new"\n'))
    assert said.code == 1
    assert found(gates(said)["format"]) == {("an.py", 1, "")}
