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
    command.write_text("#!/bin/sh\npwd\nls -A /srv /var/lib\n")
    command.chmod(0o755)
    words = [
        'set -e; cd "$0"; mount -t tmpfs none "$0"; mkdir "$0/of us" "$0/of others"',
        'for each in */; do if [ -d "./$each" ]; then mkdir -p "$0/$each"',
        'mount --no-canonicalize --rbind "./$each" "$0/$each"; fi; done',
        'cp "$1" "$0/of us"; cd "$2"; shift 2; exec "$@" "$0/of us/told"',
    ]
    scripts = str(ROOT / "scripts")
    shown = [sys.executable, "-c", SHOWN, str(tmp_path)]

    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", "; ".join(words), top, str(command), scripts, *shown],
        check=False, capture_output=True, text=True,
    )  # fmt: skip

    assert done.stderr == ""
    lines = done.stdout.split("\n")
    assert lines[0] == "/srv/patchyard-fixture/repo"
    assert "of us" in lines
    assert "of others" not in lines
