"""The place at which a home of another version is shown."""

import subprocess
import sys
from pathlib import Path

import pytest

from tree import ROOT

pytestmark = [pytest.mark.service("mount"), pytest.mark.service("root")]

SHOWN = """
import subprocess, sys
from pathlib import Path
from fixed_place import showing
command = showing(Path(sys.argv[1]), [sys.argv[2]])
print(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
"""


@pytest.mark.parametrize("top", ["/srv", "/var/lib"])
def test_a_command_that_lies_below_the_place_is_still_there(tmp_path: Path, top: str) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "repo").mkdir()
    command = tmp_path / "told"
    command.write_text("#!/bin/sh\npwd\nls -A /srv\n")
    command.chmod(0o755)
    words = 'set -e; mount -t tmpfs none "$0"; mkdir "$0/of us" "$0/of others"; '
    words += 'cp "$1" "$0/of us"; shift; exec "$@" "$0/of us/told"'
    shown = [sys.executable, "-c", SHOWN, str(tmp_path)]

    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", words, top, str(command), *shown],
        check=False, capture_output=True, text=True, cwd=ROOT / "scripts",
    )  # fmt: skip

    ours = ["of", "us"] if top == "/srv" else []
    assert done.stderr == ""
    assert done.stdout.split() == ["/srv/patchyard-fixture/repo", *ours, "patchyard-fixture"]
