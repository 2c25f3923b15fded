"""The user's terminal. `escapes` wants to know how the command line shows text of others."""

from collections.abc import Callable

from patchyard.probing.attack import Attack, Group
from patchyard.probing.evidence import said, typed, unescaped, written_to_terminal

ATTACKS = (
    Attack(
        name="terminal-written",
        group=Group.TERMINAL,
        title="write to a terminal of the machine",
        script="write",
        evidence=written_to_terminal,
    ),
    Attack(
        name="terminal-typed",
        group=Group.TERMINAL,
        title="type into a terminal (TIOCSTI)",
        script="type_into",
        evidence=typed,
    ),
    Attack(
        name="terminal-typed-wide",
        group=Group.TERMINAL,
        title="type into a terminal by a number that passes filters",
        script="type_by_wide_request",
        evidence=typed,
    ),
    Attack(
        name="terminal-controlling",
        group=Group.TERMINAL,
        title="open the terminal that the engine was started from",
        script="controlling",
        evidence=said,
    ),
)


def escapes(show: Callable[[str], str]) -> Attack:
    """Return the attack by what is printed."""
    return Attack(
        name="terminal-escapes",
        group=Group.TERMINAL,
        title="steer the user's terminal by what is printed",
        script="escape",
        evidence=unescaped(show),
    )


__all__ = ["ATTACKS", "escapes"]
