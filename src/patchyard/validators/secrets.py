"""Credentials that a change writes into files, by the forms that their makers gave them.

What has no form of its own counts where a name says that it is a secret, and it looks made by
chance. A finding never repeats what it found.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from patchyard.domain.gate_findings import GateFinding
from patchyard.domain.gates import Severity
from patchyard.domain.patch_lines import Lines

PIECE = 5000  # characters of a line that are looked at together; forms are searched for in each
OVERLAP = 1000  # of two such pieces, so that nothing is cut in two
STRETCH = 500  # lines that are looked at together first: most have nothing of a form
LEAST_BITS = 3.0  # a character, of what a name calls a secret
_FORMS: Mapping[str, str] = {
    "private-key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
    "aws-key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "github-token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{60,})",
    "gitlab-token": r"\bgl(?:pat|dt|rt|cbt|ptt)-[A-Za-z0-9_-]{20,}",
    "slack-token": r"\bxox[abposr]-[A-Za-z0-9-]{10,}",
    "slack-webhook": r"https://hooks\.slack\.com/services/T\w{6,}/B\w{6,}/\w{16,}",
    "stripe-key": r"\b[sr]k_live_[A-Za-z0-9]{16,}",
    "google-key": r"\bAIza[0-9A-Za-z_-]{35}",
    "model-key": r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{32,}",
    "npm-token": r"\bnpm_[A-Za-z0-9]{36}\b",
    "pypi-token": r"\bpypi-AgE[A-Za-z0-9_-]{40,}",
    "sendgrid-key": r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    "twilio-key": r"\bSK[0-9a-f]{32}\b",
    "jwt": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "password-in-url": (
        r"\b[a-z][a-z0-9+.-]{1,15}://[^\s:/@'\"<>{}$]{1,100}:(?!pass(?:word|wd)?@|secret@|pwd@)"
        r"[^\s:/@'\"<>{}$]{3,100}@"
    ),
}
_KNOWN = re.compile(
    "|".join(f"(?P<{name.replace('-', '_')}>{form})" for name, form in _FORMS.items())
)
# What stands in each of the forms: most lines have nothing of it, and looking for that is quick.
_MARKS = (
    *("PRIVATE KEY", "AKIA", "ASIA", "github_pat_", "xox", "hooks.slack.com", "k_live_", "AIza"),
    *("sk-", "npm_", "pypi-AgE", "SG.", "SK", "eyJ", "://"),
    *(f"gh{letter}_" for letter in "pousr"),
    *(f"gl{word}-" for word in ("pat", "dt", "rt", "cbt", "ptt")),
)
_NAMES = "password|passwd|pwd|secret|token|api_?key|auth_?key|access_?key|private_?key|credential"
_WORDS = re.compile(_NAMES, re.IGNORECASE)
_NAMED = re.compile(
    r"(?i)(?:" + _NAMES + r")s?[\w.-]{0,40}[\"']?\s{0,4}(?:=>|:=|=|:)\s{0,4}"
    r"(?:[\"'](?P<quoted>[^\"'\s]{8,200})[\"']|(?P<bare>[A-Za-z0-9+/=_-]{20,200})\s*$)"
)
_EXAMPLES = re.compile(
    r"(?i)example|sample|dummy|changeme|change_me|placeholder|your[_-]|redacted|not[_-]?a[_-]"
    r"|xxxx|\*\*\*|<[\w -]+>|\$\{|\{\{|%\(|\$\(|\bfake|test[_-]?(?:key|token|secret|password)"
)


class SecretScanner:
    """contracts.validator.Scanner: one finding a line."""

    excusing: Sequence[str] = ()

    whole_files: Sequence[str] = ()

    def __init__(self, home: Path) -> None:
        """Take the home, of which it needs nothing."""

    def scan(self, lines: Mapping[str, Lines]) -> Sequence[GateFinding]:
        """Return the lines that hold a credential."""
        return [
            GateFinding(
                path=path,
                line=number,
                rule=rule,
                severity=Severity.ERROR,
                message=f"it looks like a credential ({rule})",
            )
            for path, known in sorted(lines.items())
            for number, text in _promising(known)
            if (rule := _rule(text))
        ]


def _promising(known: Lines) -> Iterator[tuple[int, str]]:
    """Yield the lines of those stretches that have something of a form, or a name of a secret."""
    numbers = sorted(known)
    for start in range(0, len(numbers), STRETCH):
        some = numbers[start : start + STRETCH]
        text = "\n".join([known[number] for number in some])
        if any(mark in text for mark in _MARKS) or _WORDS.search(text):
            yield from ((number, known[number]) for number in some)


def _rule(text: str) -> str:
    """Return what kind of credential a line holds; empty for none."""
    starts = range(0, max(1, len(text) - OVERLAP), PIECE - OVERLAP)
    pieces = ((text[at : at + PIECE], at + PIECE >= len(text)) for at in starts)
    return next(filter(None, (_in_piece(piece, is_end=is_end) for piece, is_end in pieces)), "")


def _in_piece(text: str, *, is_end: bool) -> str:
    for known in _KNOWN.finditer(text) if any(mark in text for mark in _MARKS) else ():
        if not _EXAMPLES.search(known[0]):
            return str(known.lastgroup).replace("_", "-")
    for named in _NAMED.finditer(text):
        value = named["quoted"] or (named["bare"] if is_end else "")
        if value and _looks_made(value) and not _EXAMPLES.search(value):
            return "named-secret"
    return ""


def _looks_made(value: str) -> bool:
    """Whether a text could be made by chance: letters and digits, and none too often."""
    counts = Counter(value)
    bits = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    is_mixed = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    return is_mixed and bits >= LEAST_BITS


__all__ = ["LEAST_BITS", "OVERLAP", "PIECE", "STRETCH", "SecretScanner"]
