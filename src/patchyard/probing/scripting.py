"""The command line of a script: its text and the kit's travel as arguments."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

LOADER = """
import json, sys, types
given = json.loads(sys.argv[1])
package = sys.modules["tricks"] = types.ModuleType("tricks")
package.__path__ = []
def load(name):
    module = sys.modules["tricks." + name] = types.ModuleType("tricks." + name)
    module.__package__ = "tricks"
    exec(compile(given["code"][name], name + ".py", "exec"), module.__dict__)
    return module
kit = load("kit")
kit.carry_out(getattr(load(given["group"]), given["script"]), given)
"""


def words(group: str, script: str, given: Mapping[str, Any]) -> list[str]:
    """Return what follows a Python's path to run one function of a group's scripts."""
    code = {name: _text(name) for name in ("kit", group)}
    told = {**given, "group": group, "script": script, "code": code}
    return ["-I", "-S", "-c", LOADER, json.dumps(told)]


@cache
def _text(name: str) -> str:
    return (files("patchyard.probing") / "scripts" / f"{name}.py").read_text(encoding="utf-8")


__all__ = ["LOADER", "words"]
