"""Small tasks for a sloppy model: a file with a mistake, and the calls that mend it."""

import random
from dataclasses import dataclass
from pathlib import Path

from patchyard.models.sloppy import Errand

NOUNS = ("amount", "basket", "cursor", "degree", "entry", "figure", "gauge", "height", "index")
VERBS = ("add", "bound", "count", "derive", "extract", "fold", "gather", "halve", "invert")


@dataclass(frozen=True, kw_only=True)
class Task:
    errand: Errand
    file: Path
    mended: str


def task(number: int, workspace: Path) -> Task:
    """Write the files of task `number` and return it."""
    chance = random.Random(number)  # noqa: S311 - the same task for the same number
    noun, verb = chance.choice(NOUNS), chance.choice(VERBS)
    wrong, right = chance.sample(("+", "-", "*", "//"), 2)
    folder = f"{verb}_{number}"
    path = f"{folder}/{noun}.py"
    indent = chance.choice(("    ", "  ", "\t"))
    comment = chance.choice(("# keep the sign", "# größer als null", "# see the notes"))
    head = f'"""Work on a {noun}."""\n\n\ndef {verb}(first, second):\n{indent}{comment}\n'
    tail = f"{indent}return {noun}\n\n\ndef unused():\n{indent}return None\n"
    old = f"{indent}{noun} = first {wrong} second"
    new = f"{indent}{noun} = first {right} second"
    file = workspace / path
    file.parent.mkdir()
    file.write_text(f"{head}{old}\n{tail}")
    check = f"import {noun}; print({noun}.{verb}(6, 3))"
    calls = (
        ("read_file", {"path": path}),
        ("search_replace", {"path": path, "old_string": old, "new_string": new}),
        ("execute_command", {"command": f"cd {folder} && PYTHONPATH= python3 -c '{check}'"}),
        ("write_file", {"path": f"{folder}/NOTES.md", "content": f"# {verb}\n\nIt {right} now.\n"}),
        ("finish", {"summary": f"{verb} uses {right} instead of {wrong}"}),
    )
    errand = Errand(workspace=str(workspace), calls=calls)
    return Task(errand=errand, file=file, mended=f"{head}{new}\n{tail}")
