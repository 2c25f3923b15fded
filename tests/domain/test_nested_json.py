"""JSON that is nested very deep is bad input wherever it is read, and no RecursionError."""

import ast
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import patchyard
from patchyard.clients.berths import NOTE, read_note
from patchyard.clients.downloads import Downloads
from patchyard.clients.locks import locked
from patchyard.clients.pool_boards import ENDING, FOLDER, boards
from patchyard.contracts.journal import StoredEvent
from patchyard.domain.chain import Entry
from patchyard.domain.errors import JournalBroken, UsageError
from patchyard.domain.mcp import McpServer
from patchyard.models.scripted import load_script
from patchyard.stores.pins import FilePins
from patchyard.workspaces.moves import Moves

DEPTH = 50 * sys.getrecursionlimit()
DEEP = "[" * DEPTH + "]" * DEPTH

OWN_WORDS = "what our own engine or toolbox has just written, from one process to the other"
NAMED = (
    "RecursionError is caught there, and the value goes no further than a journal or a recording"
)
READERS = {
    "clients/clones.py": "RecursionError is caught there; a file of our own",
    "clients/written_calls.py": "the value is dropped: only the error counts, RecursionError too",
    "contracts/journal.py": NAMED,
    "engine/packing.py": "RecursionError is caught there, or bodies by their digest",
    "engine/rows.py": "bodies by their digest, which the engine wrote",
    "execution/providers.py": "RecursionError is caught there",
    "models/recorded.py": NAMED,
    "probing/victims.py": OWN_WORDS,
    "stores/process_bus.py": OWN_WORDS,
    "stores/sqlite.py": NAMED,
    "stores/sqlite_bus.py": NAMED,
    "toolbox/arriving.py": OWN_WORDS,
    "toolbox/carrying.py": OWN_WORDS,
    "toolbox/container_warden.py": OWN_WORDS,
    "toolbox/containing.py": OWN_WORDS,
    "toolbox/engines.py": "RecursionError is caught there; a container engine says it",
    "toolbox/grep.py": "what ripgrep says, whose lines have four levels",
    "toolbox/machines.py": "RecursionError is caught there",
    "toolbox/settings.py": OWN_WORDS,
    "toolbox/strands.py": "RecursionError is caught where frames are taken",
    "toolbox/walling.py": "RecursionError is caught there",
    "toolbox/warden.py": OWN_WORDS,
    "toolbox/wire.py": "the rule itself",
    "workspaces/map_shares.py": OWN_WORDS,
}
"""Where `json` itself reads, and why that is right; all else reads by `toolbox.wire.loaded`."""


def reads_by_json(place: Path) -> bool:
    return any(
        isinstance(each, ast.Attribute)
        and each.attr in {"load", "loads"}
        and isinstance(each.value, ast.Name)
        and each.value.id == "json"
        for each in ast.walk(ast.parse(place.read_text()))
    )


def test_all_that_reads_json_by_itself_is_in_the_table() -> None:
    root = Path(patchyard.__file__).parent
    found = {str(place.relative_to(root)) for place in root.rglob("*.py") if reads_by_json(place)}
    assert found == set(READERS)


def pins(folder: Path) -> None:
    server = McpServer(name="wiki", command="wiki")
    store = FilePins(folder)
    store.keep(server, ["{}"])
    (place,) = folder.iterdir()
    place.write_text(DEEP)
    assert store.read(server) is None


def moves(folder: Path) -> None:
    (folder / "moves").write_text(f'["a", 1, 2]\n{DEEP}\n["b"]\n')
    known = Moves(folder / "moves")
    assert known.made("b", None)


def note(folder: Path) -> None:
    (folder / NOTE).write_text(DEEP)
    assert read_note(folder) is None


def pool(folder: Path) -> None:
    (folder / FOLDER).mkdir(parents=True)
    place = folder / FOLDER / f"w{ENDING}"
    place.write_text(DEEP)
    with locked(place):  # a worker that lives
        assert list(boards(folder)) == []
    assert place.exists()


def page(folder: Path) -> None:
    kept = Downloads(folder)
    place = kept._page("key")
    place.parent.mkdir(parents=True)
    place.write_text(f"{DEEP}\nbody")
    assert kept.page("key") is None


def script(folder: Path) -> None:
    (folder / "script").write_text(DEEP)
    with pytest.raises(UsageError):
        load_script(folder / "script")


@pytest.mark.parametrize("read", [pins, moves, note, pool, page, script])
def test_a_file_that_is_nested_too_deep_is_a_damaged_file(
    tmp_path: Path, read: Callable[[Path], None]
) -> None:
    with pytest.raises(RecursionError):
        json.loads(DEEP)
    read(tmp_path)


def test_an_event_that_is_nested_too_deep_is_named() -> None:
    fine = Entry("p", 1, "Noted", 1, 0.0, "{}")
    with pytest.raises(JournalBroken, match="event 2 of p"):
        StoredEvent.of_all([fine, fine._replace(version=2, text=DEEP)])
