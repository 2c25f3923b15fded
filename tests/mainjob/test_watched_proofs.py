"""Files that decide a proof without being named by its command: seen from outside, and named."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from images import WITH_PYTHON, image
from mainjob.driver import Answer, Desk, shell, write
from mainjob.test_mcp_credentials import place_of
from mainjob.test_planted_defects import base

pytestmark = [pytest.mark.service("bubblewrap"), pytest.mark.timeout(600)]

CALC = "def double(n):\n    return n + 2\n"
CHECK = (
    "import os\n\nimport calc\n\nfor name in os.listdir('cases'):\n"
    "    with open(os.path.join('cases', name)) as file:\n"
    "        assert str(calc.double(int(name))) == file.read().strip()\n"
)
BESIDE = {"README.md": "a\n", "notes/plan.txt": "a\n"}  # changed, and read by no command
FILES = {"calc.py": CALC, "check.py": CHECK, "cases/5": "10\n", **BESIDE}
CHANGED = {"cases/5": "7\n", "README.md": "b\n", "notes/plan.txt": "b\n"}
COMMAND = "PYTHONPATH=. python3 check.py"

DEV = "devcontainer"
SEEN = [
    "host",
    "process",
    *(pytest.param(kind, marks=pytest.mark.service("docker")) for kind in ("container", DEV)),
    *(pytest.param(name, marks=pytest.mark.service(name)) for name in ("runsc", "runsc-current")),
]
AWAY = [
    pytest.param("ssh", marks=pytest.mark.service("sshd")),
    pytest.param("vm", marks=pytest.mark.service("qemu")),
]


@contextmanager
def placed(desk: Desk, kind: str) -> Iterator[str]:
    """A place of a kind, or of a container's runtime, linked to the desk's project."""
    if kind == "host":
        yield kind
    elif kind == DEV:
        described = json.dumps({"image": image(WITH_PYTHON)})
        base(desk, {".devcontainer/devcontainer.json": described})
        linked(desk, "git-checkout", "co", "--path", ".", place="co-devcontainer")
        yield "co-devcontainer"
    elif not kind.startswith("runsc"):
        with place_of(desk, kind) as place:
            yield place
    else:
        words = ("container-instance", "box", "--image", image(WITH_PYTHON), "--runtime", kind)
        linked(desk, *words, place="box")
        yield "box"


def linked(desk: Desk, *words: str, place: str) -> None:
    assert desk.agents("project", "create", "shop").code == 0
    assert desk.agents("resource", "add", *words).code == 0
    assert desk.agents("project", "link-resource", "shop", place).code == 0


def ran(desk: Desk, changes: Mapping[str, str], *options: str, place: str = "process") -> Answer:
    script = desk.script(*(write(path, text) for path, text in changes.items()))
    words = ("run", "a task", "--model", f"scripted:{script}", "--rounds", "0", "--setup", "")
    return desk.agents(*words, "--in", place, *options)


def proven_in(desk: Desk, kind: str) -> Answer:
    """Change what the check reads, and more that it does not, and prove it there."""
    base(desk, FILES)
    with placed(desk, kind) as place:
        done = ran(desk, CHANGED, "--validate", COMMAND, place=place)
    assert done.code == 0, done.message
    return done


def notes(desk: Desk) -> list[str]:
    found = desk.agents("plan", "events", "@last").data["events"]
    return [each["text"] for each in found if each["event"] == "Noted"]


@pytest.mark.parametrize("kind", SEEN)
def test_a_file_that_a_proof_reads_is_named_in_each_kind(desk: Desk, kind: str) -> None:
    done = proven_in(desk, kind)
    assert done.data["touched_proof"] == ["cases/5"], notes(desk)
    shown = desk.agents("plan", "status", "@last", is_json=False).out.decode()
    assert "the proof goes by these changed files: cases/5" in shown
    page = desk.folder / "receipt.md"
    assert desk.agents("plan", "export", "@last", "--to", str(page)).code == 0
    assert "changed files that the proof goes by: `cases/5`" in page.read_text()


# Reads by what a kernel may do without noting a read, each of one file; by a plain one where that
# is refused: a copy by the kernel, a clone, a comparison by the kernel, and by O_NOATIME.
HIDING = """
import fcntl, mmap, os, struct, sys

F_SETFL, FLAG = 4, 0o1000000
CLONE, CLONE_RANGE, SAME_RANGE = 0x40049409, 0x4020940D, 0xC0189436


def copied(source, target):
    assert os.copy_file_range(source, target, 4) == 4


def cloned(source, target):
    fcntl.ioctl(target, CLONE, source)


def cloned_in_part(source, target):
    fcntl.ioctl(target, CLONE_RANGE, struct.pack("qQQQ", source, 0, 0, 0))


def compared(source, target):
    os.write(target, b"A" * 4096)
    request = struct.pack("QQHHI", 0, 4096, 1, 0, 0) + struct.pack("qQQiI", target, 0, 0, 0, 0)
    answer = fcntl.ioctl(source, SAME_RANGE, request)
    assert struct.unpack_from("i", answer, 48)[0] == 0


def unnoted(source, target):
    os.read(os.open(f"/proc/self/fd/{source}", FLAG), 4)


def mapped(source, target):
    mmap.mmap(os.open(f"/proc/self/fd/{source}", FLAG), 0, prot=1)[:4]


def set_later(source, target):
    fcntl.fcntl(source, F_SETFL, FLAG)
    os.read(source, 4)


for way in (copied, cloned, cloned_in_part, compared, unnoted, mapped, set_later):
    with open(f"cases/{way.__name__}", "rb", buffering=0) as file, open("new", "w+b") as new:
        try:
            way(file.fileno(), new.fileno())
        except (OSError, AssertionError, AttributeError) as error:
            print(way.__name__, error, file=sys.stderr)
            file.read(4)
"""
HIDDEN = ("copied", "cloned", "cloned_in_part", "compared", "unnoted", "mapped", "set_later")


@pytest.mark.parametrize("kind", SEEN)
def test_no_way_to_read_is_hidden_behind_walls(desk: Desk, kind: str) -> None:
    """Where there is no wall, a map that is not to be noted is."""
    cases = {f"cases/{name}": "A" * 4096 for name in HIDDEN}
    base(desk, {"calc.py": CALC, "hide.py": HIDING, **dict.fromkeys(cases, "a\n")})
    with placed(desk, kind) as place:
        done = ran(desk, cases, "--validate", "python3 hide.py", place=place)
    assert done.code == 0, done.message
    hidden = {"cases/mapped"} if kind == "host" else set()
    assert {*done.data["touched_proof"]} == {*cases} - hidden, notes(desk)


@pytest.mark.parametrize("kind", AWAY)
def test_where_it_cannot_be_seen_that_is_told(desk: Desk, kind: str) -> None:
    done = proven_in(desk, kind)
    assert done.data["touched_proof"] == []
    assert [each for each in notes(desk) if "cannot be seen there" in each]


WAYS = {
    "a folder that the command names": (
        "for each in checks/*; do sh $each || exit 1; done",
        {"checks/one": "PYTHONPATH=. python3 -c 'import calc; assert calc.double(5) == 10'\n"},
        {"checks/one": "exit 0\n"},
    ),
    "a variable of make": (
        "make -s check",
        {"Makefile": "PART = one\ncheck:\n\tsh parts/$(PART).cmd\n", "parts/one.cmd": "exit 1\n"},
        {"parts/one.cmd": "exit 0\n"},
    ),
    "a program that is started by its folder": (
        "cd tools && for each in *; do sh ./$each || exit 1; done",
        {"tools/verify": "exit 1\n"},
        {"tools/verify": "exit 0\n"},
    ),
    "data of a unit test": (
        "python3 -m unittest -q",
        {
            "test_it.py": "import json\nimport unittest\n\nimport calc\n\n\n"
            "class Case(unittest.TestCase):\n    def test_it(self):\n"
            "        wanted = json.load(open('data.json'))\n"
            "        self.assertEqual(calc.double(5), wanted['five'])\n",
            "data.json": '{"five": 10}\n',
        },
        {"data.json": '{"five": 7}\n'},
    ),
    "by a copy within the tree": (
        "cp -r cases c && cd c && test $(cat 5) = 7",
        {"cases/5": "10\n"},
        {"cases/5": "7\n"},
    ),
    "by a copy": (
        "cp -r cases $HOME/c && cd $HOME/c && test $(cat 5) = 7",
        {"cases/5": "10\n"},
        {"cases/5": "7\n"},
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_no_command_names_is_named(desk: Desk, way: str) -> None:
    command, files, changes = WAYS[way]
    base(desk, {"calc.py": CALC, **files})
    done = ran(desk, changes, "--validate", command)
    assert done.code == 0, done.message
    assert set(changes) <= {*done.data["touched_proof"]}, done.data["touched_proof"]


def test_a_gate_and_an_invariant_are_watched_too(desk: Desk) -> None:
    gate = "gates: {cases: {command: 'cat one.dat'}}\n"
    base(desk, {".patchyard/config.yaml": gate, "one.dat": "a\n", "two.dat": "a\n", **BESIDE})
    assert desk.agents("project", "create", "shop").code == 0
    made = desk.agents(
        "invariant", "add", "two is there", "--check", "grep -q . *o.dat", "--project", "shop"
    )
    assert made.code == 0, made.message
    done = ran(desk, {"one.dat": "b\n", "two.dat": "b\n", **dict.fromkeys(BESIDE, "b\n")})
    assert done.code == 0, done.message
    assert {*done.data["touched_proof"]} == {"one.dat", "two.dat"}


def test_a_failed_round_names_what_its_proof_went_by(desk: Desk) -> None:
    base(desk, {"calc.py": CALC, "one.dat": "a\n"})
    done = ran(desk, {"one.dat": "b\n"}, "--validate", "! grep -q . *.dat")
    assert done.code == 1
    assert done.data["touched_proof"] == ["one.dat"]
    assert json.dumps(done.data["silenced"]) == "[]"


REWRITES = (
    "import unittest\n\nimport calc\n\n\nclass Case(unittest.TestCase):\n"
    "    def test_it(self):\n        self.assertEqual(calc.double(5), 10)\n"
)
REWRITER = (
    "from pathlib import Path\n\nplace = Path('tests/test_it.py')\n"
    "place.write_text(place.read_text().replace('10)', '7)'))\n"
)


def test_a_run_that_writes_to_a_test_is_named(desk: Desk) -> None:
    """A build step of the product changes a test on disk before it runs."""
    command = "python3 build_it.py && python3 -m unittest discover -q -s tests -t ."
    files = {
        "calc.py": CALC,
        "build_it.py": "",
        "tests/__init__.py": "",
        "tests/test_it.py": REWRITES,
    }
    base(desk, {**files, "steps.py": "", "build_it.py": "import steps\n"})
    done = ran(desk, {"steps.py": REWRITER}, "--validate", command)
    assert done.code == 0, done.message
    assert done.data["touched_proof"] == ["tests/test_it.py"]
    (note,) = [each for each in notes(desk) if "writes to tests or settings" in each]
    assert note.endswith(": tests/test_it.py")


SWAPPER = (
    "import os, shutil\n\nos.rename('tests', 'kept')\nshutil.copytree('kept', 'tests')\n"
    "with open('tests/test_it.py') as file:\n    text = file.read()\n"
    "with open('tests/test_it.py', 'w') as file:\n    file.write(text.replace('10)', '7)'))\n"
)
SWAPPED_BACK = "import os, shutil\n\nshutil.rmtree('tests')\nos.rename('kept', 'tests')\n"


def test_a_run_that_puts_another_folder_in_the_place_of_the_tests_is_named(
    plain_desk: Desk,
) -> None:
    """With the folder back in its place the tests are as they were."""
    command = (
        "python3 before.py && python3 -m unittest discover -q -s tests -t . && python3 after.py"
    )
    code = {"calc.py": CALC, "before.py": "import one\n", "after.py": "import two\n"}
    tests = {"tests/__init__.py": "", "tests/test_it.py": REWRITES}
    base(plain_desk, {**code, **tests, "one.py": "", "two.py": ""})
    changes = {"one.py": SWAPPER, "two.py": SWAPPED_BACK}
    done = ran(plain_desk, changes, "--validate", command)
    assert done.code == 0, done.message
    assert "tests/test_it.py" in done.data["touched_proof"]


def test_what_the_base_writes_to_as_well_is_not_named(desk: Desk) -> None:
    files = {"calc.py": CALC, "tests/out.txt": "a\n", "one.py": ""}
    base(desk, files)
    done = ran(desk, {"one.py": "x = 1\n"}, "--validate", "echo b > tests/out.txt")
    assert (done.code, done.data["touched_proof"]) == (0, []), done.message


@pytest.mark.parametrize("step", ["rm cases/5", "mkdir old && mv cases/5 old/five"])
def test_data_that_is_gone_is_named(desk: Desk, step: str) -> None:
    base(desk, {**FILES, "cases/2": "4\n"})
    script = desk.script(shell(step))
    words = ("run", "a task", "--model", f"scripted:{script}", "--rounds", "0", "--setup", "")
    done = desk.agents(*words, "--validate", COMMAND)
    assert done.code == 0, done.message
    assert "cases/5" in done.data["touched_proof"]


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("process", "true; chmod 0 ."),
        ("process", "rm -rf -- * .git; true"),
        ("host", 'rm -rf "$PWD"; true'),
    ],
)
def test_a_proof_may_take_its_own_tree_away(desk: Desk, place: str, command: str) -> None:
    base(desk, FILES)
    done = ran(desk, {"cases/5": "7\n"}, "--validate", command, place=place)
    assert done.code == 0, done.message
    assert done.data["validation"][0]["passed"]


def test_an_invariant_that_writes_to_a_test_is_not_accused(desk: Desk) -> None:
    base(desk, {"calc.py": CALC, "tests/out.txt": "a\n"})
    assert desk.agents("project", "create", "shop").code == 0
    check = ("the clock ticks", "--check", "date +%N > tests/out.txt", "--project", "shop")
    assert desk.agents("invariant", "add", *check).code == 0
    done = ran(desk, {"calc.py": f"{CALC}x = 1\n"}, "--validate", "true")
    assert (done.code, done.data["touched_proof"]) == (0, []), done.message
