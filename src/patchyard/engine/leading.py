"""The changed files that a gate's command names, or leads to through scripts and lists of tasks."""

from collections.abc import Collection, Iterable

from patchyard.contracts.trees import Trees
from patchyard.domain.changeset import Base
from patchyard.domain.gate_words import leads_on, may_lead_on, named_among, words_of

LARGEST = 256 * 1024  # bytes of a file that is followed
MOST_ASKED = 4096  # names that are looked for in the base


async def led_to(
    trees: Trees, base: Base, commands: Iterable[str], changed: Collection[str]
) -> frozenset[str]:
    """Return those of `changed` that `commands` lead to, as the base has what lies between."""
    found: set[str] = set()
    read: set[str] = set()
    asked = 0
    waiting = list(commands)
    while waiting and len(found) < len(changed):
        text = waiting.pop()
        if text in read:
            continue
        read.add(text)
        named = words_of(text)
        words = frozenset(named.words)
        found |= named_among(changed, named.words)
        for place in (*named.starting, *filter(may_lead_on, named.words)):
            if asked >= MOST_ASKED:
                break
            asked += 1
            content = await trees.file(base, place, largest=LARGEST)
            if content:
                further = content.decode("utf-8", "replace")
                waiting.append(leads_on(place, further, words))
    return frozenset(found)


__all__ = ["LARGEST", "MOST_ASKED", "led_to"]
