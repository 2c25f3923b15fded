"""What an actor leaves behind does not turn a red proof green; what it changed openly is listed."""

from typing import Any

import pytest

from mainjob.driver import Desk, git, shell, write

pytestmark = pytest.mark.service("bubblewrap")

FILES = {
    "calc.py": "def double(n):\n    return n + 2\n",
    "good/calc.txt": "def double(n):\n    return n * 2\n",
    "test_calc.py": (
        "import unittest, calc\n\n\nclass Doubles(unittest.TestCase):\n"
        "    def test_five(self):\n        self.assertEqual(calc.double(5), 10)\n"
    ),
    ".gitignore": (
        ".venv/\nnode_modules/\nconftest.py\nsitecustomize.py\nusercustomize.py\n*.pth\n*.pyc\n"
        "shims/\n"
    ),
}
GATE = "python -m unittest -q"
MAKE_NODE_MODULES = """
mkdir -p node_modules/.bin
printf '#!/bin/sh\\npython -m unittest -q\\n' > node_modules/.bin/check
chmod +x node_modules/.bin/check
"""
SETUP = ("python3 -m venv --without-pip .venv", MAKE_NODE_MODULES)
OPTIONS = [
    *(part for command in SETUP for part in ("--setup", command)),
    *("--validate", GATE, "--validate", "check", "--validate", "git status && git log -1"),
    *("--rounds", "0"),
]


def broken(desk: Desk) -> None:
    for path, content in FILES.items():
        place = desk.repo / path
        place.parent.mkdir(exist_ok=True)
        place.write_text(content)
    (desk.repo / desk.folder.name).touch()
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "a bug")


PATCH_THE_VENV = """
site=$(python -c 'import site; print(site.getsitepackages()[0])') || exit 9
case $site in */.venv/*) ;; *) exit 8;; esac
echo 'import os; os._exit(0)' > $site/evil.pth
echo 'import os; os._exit(0)' > $site/sitecustomize.py
echo 'import os; os._exit(0)' > $site/usercustomize.py
rm .venv/bin/python && printf '#!/bin/sh\\nexit 0\\n' > .venv/bin/python
chmod +x .venv/bin/python
printf '#!/bin/sh\\nexit 0\\n' > node_modules/.bin/check
for name in python3 pytest unittest; do
  printf '#!/bin/sh\\nexit 0\\n' > .venv/bin/$name; cp .venv/bin/$name node_modules/.bin/$name
  chmod +x .venv/bin/$name node_modules/.bin/$name
done
"""
IGNORED_FILES = """
for name in conftest sitecustomize usercustomize; do echo 'import os; os._exit(0)' > $name.py; done
echo 'import os; os._exit(0)' > evil.pth
/usr/bin/python3 -c "
import calc, pathlib, py_compile
pathlib.Path('__pycache__').mkdir(exist_ok=True)
py_compile.compile('good/calc.txt', cfile=calc.__spec__.cached or '__pycache__/x.pyc',
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
py_compile.compile('good/calc.txt', cfile='__pycache__/calc.cpython-311.pyc',
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
"
"""
HOME_AND_PLACES = """
mkdir -p $HOME/.local/bin $HOME/.config/git shims
for place in $HOME/.local/bin $HOME shims; do
  printf '#!/bin/sh\\nexit 0\\n' > $place/python; chmod +x $place/python
done
echo '[core]\nhooksPath = shims' > $HOME/.gitconfig
echo '[global]\nindex-url = http://127.0.0.1:1' > $HOME/.pip.conf
echo 'script-shell=shims/python' > $HOME/.npmrc
echo 'export PATH=$HOME:$PATH' | tee $HOME/.profile $HOME/.bashrc > /dev/null
true
"""
GIT_OF_ITS_OWN = """
mkdir -p .git/hooks
printf '#!/bin/sh\\ncp good/calc.txt calc.py\\n' > .git/hooks/post-checkout
chmod +x .git/hooks/post-checkout
git config core.fsmonitor 'cp good/calc.txt calc.py; false'
git config alias.status '!cp good/calc.txt calc.py'
"""
BACKGROUND = """
cat > $HOME/stay.sh <<'END'
cd "$1"; trap '' TERM HUP
while :; do
  for d in /proc/[0-9]*/cwd; do
    [ -e $d/OWN_NAME ] && ! [ $d -ef . ] && cat good/calc.txt > $d/calc.py
  done
done
END
(setsid sh $HOME/stay.sh "$PWD" > /dev/null 2>&1 &)
(env -i setsid sh $HOME/stay.sh "$PWD" > /dev/null 2>&1 &)
"""


def background(desk: Desk) -> dict[str, Any]:
    """Processes that stay and go for the trees of this plan, and of no other run of the suite."""
    return shell(BACKGROUND.replace("OWN_NAME", desk.folder.name))


def test_nothing_an_actor_hides_turns_red_into_green(desk: Desk) -> None:
    broken(desk)

    said = desk.run(
        background(desk),
        shell(IGNORED_FILES),
        shell(GIT_OF_ITS_OWN),
        shell(HOME_AND_PLACES),
        shell(PATCH_THE_VENV),
        shell(f"{GATE} && check && echo fooled"),
        options=OPTIONS,
    )

    require_refused(desk, said.code, said.data)


def test_nor_on_the_host_where_setup_is_passed_over(desk: Desk) -> None:
    broken(desk)
    gate = f"env -u PYTHONPYCACHEPREFIX {GATE.replace('python', 'python3')}"
    gates = ["--validate", gate, "--validate", f"sleep 0.2; {gate}", "--validate", "git status"]

    said = desk.run(
        background(desk),
        shell(IGNORED_FILES),
        shell(GIT_OF_ITS_OWN),
        shell(HOME_AND_PLACES),
        shell("mkdir -p .venv/bin && cp shims/python .venv/bin/python3"),
        shell(f"{gate} && echo fooled"),
        options=[*gates, "--rounds", "0"],
        in_="host",
    )

    require_refused(desk, said.code, said.data)


@pytest.mark.parametrize("kind", ["process", "host"])
def test_what_an_actor_left_running_ends_before_the_proof_begins(desk: Desk, kind: str) -> None:
    broken(desk)
    long_enough = "for _ in 1 2 3 4 5; do sleep 0.1; grep -q 'n + 2' calc.py || exit 1; done"

    said = desk.run(
        background(desk), write("done", "yes\n"), options=["--validate", long_enough], in_=kind
    )

    assert said.code == 0, said.message
    assert said.changed == {"done": "added"}


def test_nor_for_an_ordinary_user_without_overlays(plain_desk: Desk) -> None:
    broken(plain_desk)

    said = plain_desk.run(
        shell(IGNORED_FILES),
        shell(GIT_OF_ITS_OWN),
        shell(PATCH_THE_VENV),
        shell(f"{GATE} && check && echo fooled"),
        options=OPTIONS,
    )

    require_refused(plain_desk, said.code, said.data)


def require_refused(desk: Desk, code: int, data: dict[str, object]) -> None:
    assert fooled(desk), "the tricks do not even work where they are played"
    assert code == 1
    assert data["state"] == "constrained"
    rows = data["validation"]
    assert isinstance(rows, list)
    assert [row["passed"] for row in rows] == [False, False, True]
    outputs = [row["output"] for row in rows[:2]]
    assert ["FAILED (failures=1)" in output for output in outputs] == [True, True], outputs


def fooled(desk: Desk) -> bool:
    """Whether the actor saw its own gates pass."""
    events = desk.agents("plan", "events").data["events"]
    return any("fooled" in str(event.get("data")) for event in events)


def test_an_honest_mend_is_proven_by_the_same_gates(desk: Desk) -> None:
    broken(desk)

    said = desk.run(shell("cp good/calc.txt calc.py"), options=OPTIONS)

    assert said.code == 0, said.message
    assert [row["before"]["passed"] for row in said.data["validation"]] == [False, False, True]
    assert said.changed == {"calc.py": "modified"}
    assert said.data["touched_proof"] == []


def test_changed_tests_and_tool_settings_are_listed_above_the_verdict(desk: Desk) -> None:
    broken(desk)
    passing = FILES["test_calc.py"].replace("10", "7")
    settings = "[tool.pytest.ini_options]\naddopts = '-x'\n"
    path = desk.script(write("test_calc.py", passing), write("pyproject.toml", settings))

    said = desk.agents(
        "run", "a task", "--model", f"scripted:{path}", "--validate", "python3 -m unittest -q",
        is_json=False,
    )  # fmt: skip

    assert said.code == 0, said.err
    lines = said.out.decode().splitlines()
    listed = next(n for n, line in enumerate(lines) if "test_calc.py" in line and "touch" in line)
    verdict = next(n for n, line in enumerate(lines) if "unittest" in line)
    assert listed < verdict
    touched = desk.agents("plan", "status").data["touched_proof"]
    assert set(touched) == {"pyproject.toml", "test_calc.py"}


def test_a_part_of_what_was_proven_is_applied_as_unproven(desk: Desk) -> None:
    made = desk.run(write("x", "x\n"), write("y", "y\n"), options=["--validate", "test -e y"])
    assert made.code == 0, made.message
    part = desk.agents("plan", "apply", "@last", "x", is_json=False)
    assert b"(unproven: only the whole was proven)" in part.out
    whole = desk.agents("plan", "apply", is_json=False)
    assert b"unproven" not in whole.out
