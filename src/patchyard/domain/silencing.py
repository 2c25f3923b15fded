"""Words in a line that keep a tool from saying what it finds there."""

import re
from collections.abc import Mapping

from patchyard.domain.patch_lines import Lines

MOST_SHOWN = 100
_WORDS = re.compile(
    r"#\s*noqa\b|#\s*type:\s*ignore|#\s*pyright:\s*ignore|#\s*nosec\b|#\s*nosemgrep\b"
    r"|#\s*pragma:\s*(?:no cover|no branch|allowlist)|#\s*pylint:\s*disable|#\s*fmt:\s*(?:off|skip)"
    r"|#\s*ruff:\s*(?:noqa|disable)|#\s*mypy:\s*ignore|eslint-disable|@ts-(?:ignore|nocheck|expect-error)"
    r"|prettier-ignore|istanbul ignore|c8 ignore|v8 ignore|//\s*nolint\b|#\[allow\(|//\s*nosec\b"
    r"|@SuppressWarnings|@pytest\.mark\.(?:skip|xfail)|@unittest\.skip|\.only\(|\b(?:xit|xdescribe)\("
)


def silencing(added: Mapping[str, Lines]) -> tuple[str, ...]:
    """Return the added lines that silence a tool or skip a test, as `path:line`."""
    found = (
        f"{path}:{number}"
        for path, lines in sorted(added.items())
        for number, text in sorted(lines.items())
        if _WORDS.search(text[:5000])
    )
    return tuple(place for place, _ in zip(found, range(MOST_SHOWN), strict=False))


__all__ = ["MOST_SHOWN", "silencing"]
