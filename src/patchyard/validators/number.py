"""The last number that a command says: its own measure, of which less is better."""

import math
import re

from patchyard.domain.gate_findings import Reading, UnreadableReport
from patchyard.domain.gates import Gate

_NUMBER = re.compile(r"(?<![\w.])\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?(?![\w.]*\w)")
LOOKED_AT = 65_536  # bytes from the end


class NumberReader:
    """contracts.validator.ReportReader: one number."""

    def read(self, report: bytes, gate: Gate, *, root: str) -> Reading:
        """Return the last number of the output; raises UnreadableReport where there is none."""
        del gate, root
        found = _NUMBER.findall(report[-LOOKED_AT:].decode("utf-8", "replace"))
        number = float(found[-1]) if found else math.nan
        if not math.isfinite(number):
            raise UnreadableReport("the command said no number")
        return Reading(number=number)


__all__ = ["LOOKED_AT", "NumberReader"]
