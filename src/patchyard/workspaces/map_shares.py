"""Reads source files out of a store for the map, by itself or in processes beside this one.

A process beside it gets its share on standard input and answers on standard output.
"""

import gc
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import patchyard
from patchyard.clients.blobreader import BlobReader
from patchyard.clients.git import Git
from patchyard.domain.definitions import counted_of, definitions_in, is_readable, text_of, words_in
from patchyard.domain.errors import WorkFailed
from patchyard.domain.repository_map import rows_of
from patchyard.toolbox.wire import loaded

ALONE = 1500  # files up to which one process is quicker than several
MOST = 4  # processes
MOST_WORDS = 2_000_000  # of one language
UNWANTED = "the map is wanted no longer"
WAIT_S = 0.05  # between two looks at whether it is still wanted
PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1])\n"
    "from patchyard.workspaces.map_shares import main\n"
    "main()"
)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One content that is read, however many files hold it."""

    blob: str
    language: str
    files: int = 1  # that hold it; less than 0: that hold it no longer


@dataclass(kw_only=True)
class Read:
    """What was found in them."""

    rows: dict[str, str] = field(default_factory=dict)  # how they begin, by language and blob
    words: dict[str, Counter[bytes]] = field(default_factory=dict)  # language → word → files

    def take(self, wanted: Wanted, data: bytes) -> None:
        """Look at one content; what nobody has written by hand is passed over."""
        if not is_readable(data):
            return
        found = rows_of(definitions_in(data, wanted.language))
        self.rows[key_of(wanted.language, wanted.blob)] = found
        counted = self.words.setdefault(wanted.language, Counter())
        _bound(counted)
        if wanted.files == 1:
            counted.update(words_in(data))
            return
        for word in words_in(data):
            counted[word] += wanted.files

    def add(self, other: "Read") -> None:
        """Take in what another process found."""
        self.rows.update(other.rows)
        for language, counted in other.words.items():
            own = self.words.get(language)
            if own is None:
                self.words[language] = counted
            else:
                _bound(own)
                own.update(counted)  # adds: what one took away another may have added

    def to_json(self) -> Mapping[str, Any]:
        """Return it as plain values; words are bytes, one character each."""
        return {
            "rows": self.rows,
            "words": {name: text_of(own).decode("latin-1") for name, own in self.words.items()},
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Read":
        """Return what `to_json` gave."""
        return cls(
            rows=body["rows"],
            words={name: counted_of(own.encode("latin-1")) for name, own in body["words"].items()},
        )


def _bound(counted: Counter[bytes]) -> None:
    """Raise WorkFailed where a language has more words than code has: they are held in memory."""
    if len(counted) > MOST_WORDS:
        raise WorkFailed(f"more than {MOST_WORDS:,} different words: no map is made of that")


def key_of(language: str, blob: str) -> str:
    """Return what names a content: two languages may read the same one by their own rules."""
    return f"{language}:{blob}"


def read_all(git: Git, reader: BlobReader, wanted: Sequence[Wanted], gone: threading.Event) -> Read:
    """Read every content that is wanted. Raises WorkFailed once `gone` is set, or without git."""
    workers = min(MOST, os.cpu_count() or 1)
    if len(wanted) <= ALONE or workers == 1 or not sys.executable:
        return read_share(reader, wanted, gone)
    shares = [wanted[number::workers] for number in range(workers)]
    helpers: list[_Helper] = []
    try:
        helpers += [_Helper(git, share) for share in shares[1:]]
        found = read_share(reader, shares[0], gone)
        for helper in helpers:
            found.add(helper.answer(gone))
    finally:
        for helper in helpers:
            helper.end()
    return found


def read_share(reader: BlobReader, wanted: Sequence[Wanted], gone: threading.Event) -> Read:
    """Read contents in this process."""
    found = Read()
    by_blob: dict[str, list[Wanted]] = {}
    for each in wanted:
        by_blob.setdefault(each.blob, []).append(each)
    for blob, data in reader.contents(by_blob):
        if gone.is_set():
            raise WorkFailed(UNWANTED)
        for each in by_blob[blob]:
            found.take(each, data)
    return found


class _Helper:
    """A process beside this one that reads one share."""

    def __init__(self, git: Git, wanted: Sequence[Wanted]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", PROGRAM, str(Path(patchyard.__file__).parents[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=git.home,
            process_group=0,
        )
        task = {
            "git": [str(git.home), str(git.config), str(git.git_dir)],
            "wanted": [[each.blob, each.language, each.files] for each in wanted],
        }
        self._said = b""
        self._talk = threading.Thread(target=self._converse, args=(json.dumps(task).encode(),))
        self._talk.start()

    def _converse(self, task: bytes) -> None:
        self._said, _ = self._process.communicate(task)

    def answer(self, gone: threading.Event) -> Read:
        """Wait for what it found. Raises WorkFailed once `gone` is set, or when it failed."""
        while self._talk.is_alive():
            self._talk.join(WAIT_S)
            if gone.is_set():
                raise WorkFailed(UNWANTED)
        if self._process.returncode != 0:
            raise WorkFailed(f"a reader of the map ended with {self._process.returncode}")
        return Read.from_json(loaded(self._said))

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._talk.join()


def _shares(task: Mapping[str, Any]) -> Iterator[Wanted]:
    for blob, language, files in task["wanted"]:
        yield Wanted(blob=blob, language=language, files=files)


def main() -> None:
    """Read the share that standard input names, and answer."""
    gc.disable()  # nothing here refers to itself, and all of it is kept to the end
    task = json.loads(sys.stdin.buffer.read())
    home, config, git_dir = map(Path, task["git"])
    git = Git(home=home, config=config, git_dir=git_dir)
    with BlobReader(git) as reader:
        found = read_share(reader, list(_shares(task)), threading.Event())
    sys.stdout.write(json.dumps(found.to_json(), separators=(",", ":")))


__all__ = ["ALONE", "MOST", "Read", "Wanted", "key_of", "main", "read_all", "read_share"]
