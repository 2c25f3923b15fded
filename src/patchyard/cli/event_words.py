"""An event's fields as one line of JSON, bounded, for lists."""

import json

from patchyard.cli.outcome import visible
from patchyard.domain.codec import to_json
from patchyard.domain.events import Event, PhaseFailed


def event_words(event: Event, most: int) -> str:
    """Return the fields in `most` characters, cut with `…`; why a phase failed stays whole."""
    said = visible(json.dumps(to_json(event), ensure_ascii=False))
    is_whole = len(said) <= most or isinstance(event, PhaseFailed)  # with its cure
    return said if is_whole else f"{said[: most - 1]}…"


__all__ = ["event_words"]
