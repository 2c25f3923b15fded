"""What others may swap for a FIFO is opened without waiting for it, wherever it is read.

The swap happens as the file is opened, after every look: Python tells its audit hooks of each open
before the kernel does it.
"""

import contextlib
import functools
import os
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from patchyard.clients.devcontainers_cli import _read
from patchyard.clients.disk import LocalDisk
from patchyard.clients.git_files import content_of
from patchyard.clients.reader import NotPlain, Reader, plain_file
from patchyard.clients.temporaries import MARK, TemporaryKeeper
from patchyard.domain.errors import EnvironmentUnavailable, ModelUnavailable, UsageError
from patchyard.domain.gate_findings import NothingToGoBy
from patchyard.models.keys import _in_file
from patchyard.models.scripted import load_script
from patchyard.roles.library import _prompt
from patchyard.validators.advisories import _documents
from patchyard.workspaces.copy import _copy, _is_alike
from patchyard.workspaces.patches import _sync
from patchyard.workspaces.view import _read_rules

ENOUGH_S = 60.0  # for what waits for nothing, on a busy machine
TEXT = b"execute: [{text: one}]\n"
DEMO = "patchyard-demo-abcdefgh"


class Swap:
    """Puts something else in the place of one file, once, as it is opened."""

    def __init__(self) -> None:
        self._place: Path | None = None
        self._make: Callable[[Path], object] = os.mkfifo

    @property
    def is_done(self) -> bool:
        """Whether the file was opened."""
        return self._place is None

    @contextlib.contextmanager
    def of(self, place: Path, make: Callable[[Path], object]) -> Iterator[None]:
        """Do it to `place`; `make` puts the other thing there."""
        self._place, self._make = place, make
        try:
            yield
        finally:
            self._place = None

    def hear(self, event: str, told: tuple[Any, ...]) -> None:
        """Take what Python tells: of an open its path, which may be relative to a folder."""
        if self._place is None or event != "open" or isinstance(told[0], int):
            return
        if Path(os.fsdecode(told[0])).name == self._place.name:
            place, self._place = self._place, None
            place.unlink()
            self._make(place)


@functools.cache
def hearing() -> Swap:
    """Return the one of this process: a hook stays for good."""
    swap = Swap()
    sys.addaudithook(swap.hear)
    return swap


@dataclass(kw_only=True)
class Outcome:
    value: object = None
    error: Exception | None = None


def without_waiting(place: Path, call: Callable[[Path], object]) -> Outcome:
    """Return what a call comes to; it fails the test where it waits for the other end of a FIFO."""
    outcome = Outcome()

    def run() -> None:
        try:
            outcome.value = call(place)
        except Exception as error:  # noqa: BLE001 - the test looks at each
            outcome.error = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(ENOUGH_S)
    if thread.is_alive():
        os.close(os.open(place, os.O_RDWR | os.O_NONBLOCK))  # lets it go
        thread.join()
        pytest.fail("it waited for a FIFO")
    return outcome


def below(place: Path, call: Callable[[int], object]) -> object:
    at = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return call(at)
    finally:
        os.close(at)


def by_reader(place: Path) -> bytes:
    with Reader(place.parent) as reader, reader.opened(place.name) as (descriptor, status):
        return os.read(descriptor, status.st_size)


def copied(place: Path) -> bytes:
    target = place.with_name("copy")
    _copy(place, target, place.lstat())
    return target.read_bytes()


def compared(place: Path) -> bool:
    (place.parent / "kept").write_bytes(place.read_bytes())
    (place.parent / "kept").chmod(place.stat().st_mode)
    with hearing().of(place, os.mkfifo):
        return _is_alike(place.parent / "kept", place)


def demos(place: Path) -> int:
    home = place.parents[2] / "home"
    keeper = TemporaryKeeper(home=home, workspaces=home / "workspaces", outside=place.parents[1])
    return len([*keeper._found()])


def documents(place: Path) -> object:
    return [*_documents(place.parent)]


def zipped() -> bytes:
    place = Path("documents.zip")
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("one.json", TEXT)
    return place.read_bytes()


@dataclass(frozen=True, kw_only=True)
class Case:
    """One that reads a file, what that comes to, and what comes in its place after a swap."""

    read: Callable[[Path], object]
    name: str = "file"
    content: bytes | Callable[[], bytes] = TEXT
    value: object = TEXT
    refused: object = b""  # or the exception
    says: str = "changed its kind"
    mode: int = field(default=0o600)

    def write(self, folder: Path) -> Path:
        """Write the file."""
        place = folder / self.name
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = self.content() if callable(self.content) else self.content
        own = os.fsencode(folder / "home")
        place.write_bytes(content.replace(b"HOME", own))
        place.chmod(self.mode)
        return place


CASES = {
    "rules": Case(read=_read_rules),
    "devcontainers-cli": Case(
        read=_read, value=TEXT.decode(), refused=EnvironmentUnavailable, says="no plain file"
    ),
    "patch": Case(
        read=lambda place: below(place, lambda at: _sync(place.name, at)),
        value=None,
        refused=NotPlain,
    ),
    "reader": Case(read=by_reader, refused=NotPlain),
    "setup-layer": Case(read=copied, refused=NotPlain),
    "git-folder": Case(read=content_of),
    "toolchain": Case(
        read=lambda place: LocalDisk().text(str(place)), value=TEXT.decode(), refused=""
    ),
    "demo": Case(read=demos, name=f"outside/{DEMO}/{MARK}", content=b"HOME", value=1, refused=0),
    "advisory": Case(read=documents, name="advisories/one.json", value=[TEXT], refused=[b""]),
    "advisories": Case(
        read=documents,
        name="advisories/all.zip",
        content=zipped,
        value=[TEXT],
        refused=NothingToGoBy,
    ),
    "prompt": Case(
        read=_prompt, value=TEXT.decode(), refused=UsageError, says="it is no plain file"
    ),
    "key": Case(
        read=_in_file, value=TEXT.decode().strip(), refused=ModelUnavailable, says="no plain file"
    ),
    "script": Case(
        read=lambda place: len(load_script(place).execute),
        value=1,
        refused=UsageError,
        says="is no plain file",
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, where the test runs, too."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def is_refused(outcome: Outcome, case: Case) -> bool:
    if isinstance(case.refused, type):
        return isinstance(outcome.error, case.refused) and case.says in str(outcome.error)
    return outcome.error is None and outcome.value == case.refused


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
@pytest.mark.parametrize("name", CASES)
def test_a_file_that_becomes_something_else_as_it_is_opened_holds_nothing_up(
    folder: Path, name: str, make: Callable[[Path], object]
) -> None:
    case = CASES[name]
    place = case.write(folder)
    with hearing().of(place, make):
        outcome = without_waiting(place, case.read)
        assert hearing().is_done
    assert is_refused(outcome, case), outcome


@pytest.mark.parametrize("name", CASES)
def test_a_plain_file_is_read_whole(folder: Path, name: str) -> None:
    case = CASES[name]
    outcome = without_waiting(case.write(folder), case.read)
    assert outcome.error is None
    assert outcome.value == case.value


def test_a_file_of_a_layer_that_becomes_a_fifo_as_it_is_compared_is_refused(folder: Path) -> None:
    place = folder / "file"
    place.write_bytes(TEXT)
    assert isinstance(without_waiting(place, compared).error, NotPlain)


@pytest.mark.parametrize("name", ["git-folder", "rules", "toolchain"])
def test_of_a_link_to_a_device_nothing_is_read(folder: Path, name: str) -> None:
    case, place = CASES[name], folder / "file"
    place.symlink_to("/dev/urandom")
    assert is_refused(without_waiting(place, case.read), case)


@pytest.mark.parametrize("target", ["/dev/null", ".", "fifo"])
def test_what_is_no_plain_file_is_refused_where_a_link_leads_to_it(
    folder: Path, target: str
) -> None:
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to(target)

    def read(place: Path) -> None:
        with plain_file(place, follows=True):
            pytest.fail("it was opened")

    assert isinstance(without_waiting(folder / "link", read).error, NotPlain)


def test_a_link_is_followed_only_where_that_is_asked_for(folder: Path) -> None:
    (folder / "file").write_text("text")
    (folder / "link").symlink_to("file")
    with plain_file(folder / "link", follows=True) as (descriptor, status):
        assert os.read(descriptor, 10) == b"text"
        assert status.st_size == 4
    with pytest.raises(OSError, match="symbolic links"), plain_file(folder / "link"):
        raise AssertionError("it was opened")


def test_a_script_without_an_end_is_not_read_to_it(folder: Path) -> None:
    with (folder / "script").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match="longer than"):
        load_script(folder / "script")
