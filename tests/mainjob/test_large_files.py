"""Large files that an agent leaves: shown, handed over and exported piece by piece."""

import base64
import json

import pytest

from laboratory import git
from mainjob.driver import Desk, finish, shell
from mainjob.test_planted_defects import base, run
from patchyard.cli import patch_output

pytestmark = [pytest.mark.service("bubblewrap"), pytest.mark.timeout(600)]

SIZES = {"big.txt": 9_000_000, "noise": 4_000_000}


def left(desk: Desk) -> None:
    """Let an agent leave a large text and a large binary."""
    base(desk, {"a.txt": "a\n"})
    making = "yes | head -c 9000000 > big.txt; head -c 4000000 /dev/urandom > noise; echo b > a.txt"
    assert run(desk, shell(making), finish()).code == 0


def test_a_large_change_goes_to_a_pipe_a_patch_and_an_export_and_is_the_same(desk: Desk) -> None:
    left(desk)

    said = desk.agents("plan", "diff", is_json=False)

    clone = desk.folder / "clone"
    git(desk.folder, "clone", "-q", str(desk.repo), str(clone))
    git(clone, "apply", "--binary", "-", stdin=said.out)
    assert {name: (clone / name).stat().st_size for name in SIZES} == SIZES
    assert (clone / "a.txt").read_text() == "b\n"
    target = desk.folder / "plan.json"
    assert desk.agents("plan", "export", "@last", "--to", str(target)).code == 0
    assert base64.b64decode(json.loads(target.read_text())["patch"]) == said.out
    place = desk.folder / "out.patch"
    assert desk.agents("plan", "apply", "--to", "patch", "--name", str(place)).code == 0
    assert place.read_bytes() == said.out
    assert desk.agents("plan", "unapply").code == 0
    assert not place.exists()


def test_a_large_file_is_shown_as_binary_and_json_says_what_to_do(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(desk)
    monkeypatch.setattr(patch_output, "MOST_JSON_BYTES", 1024 * 1024)

    listed = desk.agents("plan", "diff", "--stat", is_json=False).out.decode()

    assert listed.splitlines() == ["M a.txt  +1 -1", "A big.txt  binary", "A noise  binary"]
    shown = desk.agents("plan", "status", is_json=False).out.decode()
    assert "A big.txt  binary" in shown
    refused = desk.agents("plan", "diff")
    assert (refused.code, "more than 1 MiB" in refused.message) == (2, True)
    some = desk.agents("plan", "diff", "@last", "a.txt")
    assert some.code == 0
    assert "+b\n" in some.data["patch"]
    assert "big.txt" not in some.data["patch"]
