"""Small tasks for a sloppy model: a file with a mistake, and the calls that mend it."""

import random
from dataclasses import dataclass

from patchyard.models.sloppy import Errand

NOUNS = ("amount", "basket", "cursor", "degree", "entry", "figure", "gauge", "height", "index")
VERBS = ("add", "bound", "count", "derive", "extract", "fold", "gather", "halve", "invert")


@dataclass(frozen=True, kw_only=True)
class Task:
    planning: Errand
    working: Errand
    file: str
    broken: str
    mended: str
    check: str  # a command that passes when it is mended


def task(number: int, workspace: str) -> Task:
    """Return task `number` in a repository at `workspace`."""
    chance = random.Random(number)
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
    try_it = f"import {noun}; print({noun}.{verb}(6, 3))"
    calls = (
        ("read_file", {"path": path}),
        ("search_replace", {"path": path, "old_string": old, "new_string": new}),
        ("execute_command", {"command": f"cd {folder} && PYTHONPATH= python3 -c '{try_it}'"}),
        ("write_file", {"path": f"{folder}/NOTES.md", "content": f"# {verb}\n\nIt {right} now.\n"}),
        ("finish", {"summary": f"{verb} uses {right} instead of {wrong}"}),
    )
    plan = f"1. In {path}, {verb} takes {right}.\n2. Note it."
    looks = (calls[0], ("finish", {"summary": plan}))
    return Task(
        planning=Errand(workspace=workspace, calls=looks),
        working=Errand(workspace=workspace, calls=calls),
        file=path,
        broken=f"{head}{old}\n{tail}",
        mended=f"{head}{new}\n{tail}",
        check=f"grep -qF 'first {right} second' {path}",
    )
