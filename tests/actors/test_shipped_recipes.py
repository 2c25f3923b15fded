"""The recipes that ship: read without fault, and doing what they say."""

from pathlib import Path

import pytest

from actors.hands import Hands, carried_out, recipe
from patchyard.domain.action import use
from patchyard.intake_actions import shipped_actions

pytestmark = pytest.mark.anyio

HEADER = "SPDX-FileCopyrightText: 2026 A {curly} \\1 Holder"
LICENCE = "SPDX-License-Identifier: Apache-2.0"

CASES = {
    "plain.py": ("x = 1\n", f"# {HEADER}\n# {LICENCE}\nx = 1\n"),
    "script.py": (
        "#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\nx = 1\n",
        f"#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n# {HEADER}\n# {LICENCE}\nx = 1\n",
    ),
    "done.py": ("#!/bin/sh\n# words\n# SPDX-License-Identifier: MIT\n", None),
    "later.py": (
        "x = 1\n# SPDX-License-Identifier: MIT\n",
        f"# {HEADER}\n# {LICENCE}\nx = 1\n# SPDX-License-Identifier: MIT\n",
    ),
    "marked.py": ("\ufeff# SPDX-License-Identifier: MIT\n", None),
    "marked.sh": ("\ufeffx\n", f"\ufeff# {HEADER}\n# {LICENCE}\nx\n"),
    "empty.py": ("", None),
    "main.ts": ("export {}\n", f"// {HEADER}\n// {LICENCE}\nexport {{}}\n"),
    "done.c": ("/* words\n * SPDX-License-Identifier: MIT\n */\nint x;\n", None),
    "done.go": ("// SPDX-License-Identifier: MIT\npackage x\n", None),
    "done.mjs": ("#!/usr/bin/env node\n// SPDX-License-Identifier: MIT\n", None),
    "notes.md": ("text\n", None),
}


async def test_licence_headers_go_into_every_source_file_once(tmp_path: Path) -> None:
    for name, (before, _) in CASES.items():
        (tmp_path / name).write_text(before)
    action = shipped_actions()["licence-headers"]
    given = {"holder": r"A {curly} \1 Holder", "year": "2026 "}
    filled = use(action, given)
    brief = recipe(*action.steps, arguments=filled.arguments)
    for _ in range(2):  # the second time changes nothing
        lived = await carried_out(brief, Hands(tmp_path))
        assert not lived[-1][0].failure
        for name, (before, after) in CASES.items():
            assert (tmp_path / name).read_text() == (before if after is None else after), name
