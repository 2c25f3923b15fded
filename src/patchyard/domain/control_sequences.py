"""What programs tell a terminal between the text that they print (ECMA-48)."""

import re

SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")  # colours, moves of the cursor

__all__ = ["SEQUENCE"]
