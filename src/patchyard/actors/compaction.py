"""Makes room in a conversation by rule: the same entries and budget always give the same result.

The system prompt and the task are never touched. First old outputs and long texts become one line
each, then the oldest exchanges are left out, then the recent ones give way in the same order.
"""

from collections.abc import Sequence

from patchyard.actors.conversation import Entry, entry, shortened, starts_exchange
from patchyard.domain.messages import Message, Speaker

ROOM_AFTER = 0.6  # of the budget, so that making room is rare
KEEP_RECENT = 8  # entries left whole as long as possible
NOTICE_BYTES = 250  # of the message that says so
LEFT_OUT = "[Earlier steps were left out to save room: "


def compact(entries: Sequence[Entry], budget: int) -> list[Entry]:
    """Return the conversation within `budget` bytes, or as near as its pinned parts allow."""
    if total(entries) <= budget:
        return list(entries)
    goal = int(budget * ROOM_AFTER)
    made = _shorten_old(list(entries), goal, keep=KEEP_RECENT)
    if total(made) > goal:
        made = _drop_oldest(made, goal, keep=KEEP_RECENT)
    if total(made) > budget:
        made = _shorten_old(made, budget, keep=0)
    if total(made) > budget:
        made = _drop_oldest(made, budget, keep=0)
    return made


def total(entries: Sequence[Entry]) -> int:
    """Return the bytes of a conversation."""
    return sum(one.size for one in entries)


def _shorten_old(entries: list[Entry], goal: int, *, keep: int) -> list[Entry]:
    size = total(entries)
    said = [index for index, one in enumerate(entries) if starts_exchange(one)]
    for index, old in enumerate(entries[: max(0, len(entries) - keep)]):
        if size <= goal:
            break
        if old.shorter is None or old.is_pinned:
            continue
        entries[index] = shortened(old, is_last=index in said[-1:])
        size += entries[index].size - old.size
    return entries


def _drop_oldest(entries: list[Entry], goal: int, *, keep: int) -> list[Entry]:
    pinned = [one for one in entries if one.is_pinned]
    rest = [one for one in entries if not one.is_pinned]
    dropped = 0
    if rest and rest[0].message.text.startswith(LEFT_OUT):
        dropped = int(rest.pop(0).message.text.removeprefix(LEFT_OUT).split(" ", 1)[0])
    room = goal - total(pinned) - NOTICE_BYTES
    cut = _cut_at(rest, room, keep=keep)
    if cut == 0 and not dropped:
        return entries
    dropped += sum(starts_exchange(one) for one in rest[:cut])
    notice = f"{LEFT_OUT}{dropped} of them. What they changed is in the files.]"
    said = entry(Message(speaker=Speaker.USER, text=notice))
    return [*pinned, said, *rest[cut:]]


def _cut_at(rest: Sequence[Entry], room: int, *, keep: int) -> int:
    """Return where the part begins that fits, at the start of an exchange."""
    size = total(rest)
    best = 0
    for index, one in enumerate(rest[: max(0, len(rest) - keep)]):
        if starts_exchange(one):
            best = index
            if size <= room:
                return index
        size -= one.size
    return best


__all__ = ["compact", "total"]
