"""What an actor writes to arrange a green proof, and where that has to be seen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mainjob.driver import Answer, Desk, write
from mainjob.test_planted_defects import base
from timing import IS_SOAK

__all__ = ["CALC", "Cheat", "carried_out", "chosen", "require_seen"]

CALC = "def double(n):\n    return n + 2\n"


@dataclass(frozen=True, kw_only=True)
class Cheat:
    """What stands in the base, what an actor writes, and where that is to be seen."""

    command: str = ""  # empty: the gates of the base
    files: Mapping[str, str] = field(default_factory=dict)
    writes: Mapping[str, str] = field(default_factory=dict)
    listed: tuple[str, ...] = ()  # in `touched_proof`, and green; empty: it is refused
    silenced: tuple[str, ...] = ()


def carried_out(desk: Desk, cheat: Cheat, *further: str) -> Answer:
    """Let an actor write what the cheat writes, and prove it by its command."""
    base(desk, {"calc.py": CALC, **cheat.files})
    script = desk.script(*(write(path, text) for path, text in cheat.writes.items()))
    options = ("--validate", cheat.command) if cheat.command else ()
    words = ("run", "a task", "--model", f"scripted:{script}", "--rounds", "0", "--setup", "")
    return desk.agents(*words, *options, *further)


def require_seen(desk: Desk, cheat: Cheat, *further: str) -> None:
    """Require that the cheat is refused, or listed where it says; `further` are options."""
    said = carried_out(desk, cheat, *further)
    data: Any = said.data
    assert set(cheat.listed) <= {*data["touched_proof"], *data["held_from_base"]}, data
    assert set(cheat.silenced) <= {*data["silenced"]}, data["silenced"]
    wanted = (0, "complete") if cheat.listed else (1, "constrained")
    assert (said.code, data["state"]) == wanted, (said.message, data["validation"])


def chosen(cheats: Mapping[str, Cheat]) -> list[str]:
    """Return the names of all cheats in a soak, and of two elsewhere."""
    return [*cheats] if IS_SOAK else [*cheats][:2]
