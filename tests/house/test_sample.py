"""The sample answer of the documents has the names and types of a real one."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite, call, done
from tree import ROOT

PAGE = ROOT / "docs/reference/results.md"
FILES = {
    "stock.py": "def pages(items, size):\n"
    "    return [items[i : i + size] for i in range(0, len(items) - size, size)]\n",
    "check.py": "from stock import pages\nassert pages([1, 2, 3], 2) == [[1, 2], [3]]\n",
}


def shape(value: Any) -> Any:
    """Names and types; of a list the shape of what is first in it."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in sorted(value.items())}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "number"
    return type(value).__name__


def told(site: Worksite, *words: str) -> Any:
    run = subprocess.run(
        [sys.executable, "-m", "patchyard", *words, "--format", "json"],
        cwd=site.repository,
        env=site.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=100,
    )
    return json.loads(run.stdout)


@pytest.mark.service("bubblewrap")
@pytest.mark.service("control-groups")
async def test_the_sample_has_the_names_and_types_of_a_real_answer(tmp_path: Path) -> None:
    found = re.search(r"^```json sample\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    site = Worksite.make(tmp_path, FILES)
    model = site.script(
        [
            call("search_replace", path="stock.py", old_string=") - size", new_string=")"),
            call("execute_command", command="python3 check.py"),
            done("mended"),
        ]
    )
    try:
        told(site, "invariant", "add", "no new file", "--check", "test ! -e new.txt")
        real = told(site, "run", "mend it", "--model", model, "--validate", "python3 check.py")
    finally:
        await site.clear()
    assert shape(json.loads(found.group(1))) == shape(real)
