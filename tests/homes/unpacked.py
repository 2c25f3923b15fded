"""A home that an earlier version made, unpacked and shown at the path where it was made."""

import functools
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endings import LONGEST_S
from fixed_place import PLACE, showing
from home_of_version import ENVIRONMENT, HOMES
from ordinary import NOBODY
from services import REAL_ENVIRONMENT, ordinary_python

__all__ = ["Said", "Unpacked", "unpacked"]

_EACH = """
import contextlib, io, json, sys
from patchyard.cli.main import agents

answers = []
for words in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = agents.main(args=[*words, "--format", "json"], standalone_mode=False)
    answers.append([code or 0, said.getvalue()])
print(json.dumps(answers))
"""


@dataclass(frozen=True, kw_only=True)
class Said:
    """What `agents` said with `--format json`."""

    code: int
    body: Mapping[str, Any]

    @property
    def data(self) -> Any:
        """What the command was asked for."""
        return self.body["data"]

    @property
    def error(self) -> Any:
        """The error as a record; None without one."""
        return self.body["error"]


@dataclass(frozen=True, kw_only=True)
class Unpacked:
    """The folder with home and repository, and the user whose they are."""

    folder: Path
    user: int

    @functools.cached_property
    def told(self) -> Mapping[str, Any]:
        """What the version that made the home said of each plan, by the plan's name."""
        said: Mapping[str, Any] = json.loads((self.folder / "told.json").read_text())
        return said

    def plan(self, name: str) -> str:
        """The id of a plan."""
        found: str = self.told[name]["plan_id"]
        return found

    def agents(self, *words: str) -> Said:
        """Run one command as a process of its own."""
        done = self.ran("-m", "patchyard", *words, "--format", "json")
        assert done.stdout, done.stderr
        return Said(code=done.returncode, body=json.loads(done.stdout))

    def each(self, *commands: Sequence[str]) -> Sequence[Said]:
        """Run several commands one after the other in one process."""
        done = self.ran("-c", _EACH, said=json.dumps(commands))
        assert done.returncode == 0, done.stderr
        return [Said(code=code, body=json.loads(text)) for code, text in json.loads(done.stdout)]

    def ran(self, *words: str, said: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a Python with this package there."""
        python = ordinary_python() if self.user else (sys.executable,)
        return self.command(*python, *words, said=said)

    def command(self, *words: str, said: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a command there, as the owner of the home."""
        return subprocess.run(
            showing(self.folder, words, user=self.user),
            check=False, capture_output=True, text=True, input=said, timeout=LONGEST_S,
            env={**ENVIRONMENT, "TMPDIR": f"{PLACE}/tmp"}, cwd="/", **_as(self.user),
        )  # fmt: skip


@contextmanager
def unpacked(name: str) -> Iterator[Unpacked]:
    """Unpack a home for root or an ordinary user, as its name says."""
    user = (os.geteuid() or NOBODY) if name.endswith("-ordinary") else 0
    # Not below pytest's own folder: an ordinary user may not reach that.
    place = REAL_ENVIRONMENT.get("TMPDIR", "/tmp")
    folder = Path(tempfile.mkdtemp(prefix="home-of-version-", dir=place))
    try:
        os.chown(folder, user, user)
        words = ["tar", "--xattrs", "--xattrs-include=*", "-x", "-f", "-", "-C", str(folder)]
        archive = lzma.decompress((HOMES / f"{name}.tar.xz").read_bytes())
        subprocess.run(words, check=True, input=archive, **_as(user))
        (folder / "tmp").mkdir()  # where no process of another machine left anything
        os.chown(folder / "tmp", user, user)
        yield Unpacked(folder=folder, user=user)
    finally:
        shutil.rmtree(folder)


def _as(user: int) -> dict[str, Any]:
    """How a process is started as another user; as the present one where it is that."""
    return {} if user == os.geteuid() else {"user": user, "group": user, "extra_groups": []}
