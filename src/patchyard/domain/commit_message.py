"""The message of a commit that is handed over, from texts that a model may have written."""

import re
import unicodedata

TITLE_LETTERS = 72
REPLACED = "\N{REPLACEMENT CHARACTER}"
#: Changes the order in which a terminal shows what follows (Unicode's Bidi_Control).
TURNING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def commit_message(task: str, summary: str) -> str:
    """Return the task's first line, and below it what was done.

    Git refuses NUL in a message and shows all others raw: control characters, and those that turn
    what a terminal shows, are replaced.
    """
    lines = (line.strip() for line in _plain(task).splitlines())
    first = next((line for line in lines if line), "change")
    title = first if len(first) <= TITLE_LETTERS else f"{first[: TITLE_LETTERS - 3]}..."
    body = _plain(summary).strip()
    return f"{title}\n\n{body}\n" if body else f"{title}\n"


def _plain(text: str) -> str:
    joined = TURNING.sub(REPLACED, text.replace("\r\n", "\n"))
    return "".join(
        char if char in "\n\t" or unicodedata.category(char) not in {"Cc", "Cs"} else REPLACED
        for char in joined
    )


__all__ = ["commit_message"]
