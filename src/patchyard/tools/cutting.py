"""Cuts long output to a stated size, keeping its beginning and its end."""


def cut(text: str, *, limit: int, call_id: str, head_share: float = 0.5) -> str:
    """Return `text` within about `limit` characters, and how to read what was left out.

    `head_share` is the part of the limit given to the beginning. Cuts fall on line ends where one
    is near.
    """
    if len(text) <= limit:
        return text
    head_end = _line_end_before(text, int(limit * head_share))
    tail_start = _line_start_after(text, len(text) - (limit - head_end))
    left_out = tail_start - head_end
    notice = (
        f"[... {left_out:,} of {len(text):,} characters left out; "
        f'read_output(call_id="{call_id}", offset={head_end}) shows them ...]'
    )
    head = text[:head_end]
    separator = "" if not head or head.endswith("\n") else "\n"
    return f"{head}{separator}{notice}\n{text[tail_start:]}"


def _line_end_before(text: str, position: int) -> int:
    found = text.rfind("\n", max(0, position - 400), position)
    return found + 1 if found >= 0 else position


def _line_start_after(text: str, position: int) -> int:
    found = text.find("\n", position, position + 400)
    return found + 1 if found >= 0 else position


__all__ = ["cut"]
