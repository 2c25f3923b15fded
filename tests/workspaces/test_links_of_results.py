"""Links of a result: protected names that they give, and where they lead in the end."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from handovers import order
from laboratory import Lab
from patchyard.domain.changeset import FindingKind
from patchyard.domain.errors import StateRefusal

pytestmark = pytest.mark.anyio

PROTECTED, ESCAPING = FindingKind.PROTECTED_PATH, FindingKind.ESCAPING_LINK
Tree = Mapping[str, str]  # content by path; "-> target" is a link
Found = Mapping[str, FindingKind]


def lay(root: Path, tree: Tree) -> None:
    for path, content in tree.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(place):
            place.unlink()
        if content.startswith("-> "):
            place.symlink_to(content.removeprefix("-> "))
        else:
            place.write_text(content)


CASES: dict[str, tuple[Tree, Tree, Found]] = {
    "a new link in the place of a protected folder": (
        {},
        {".vscode": "-> pkg/v", "pkg/v/tasks.json": "{}", "pkg/other": "o\n"},
        {".vscode": PROTECTED, "pkg/v/tasks.json": PROTECTED},
    ),
    "a protected folder that is a link of the base": (
        {".husky": "-> tools/husky", "tools/husky/pre-commit": "true\n", "tools/other": "1\n"},
        {"tools/husky/pre-commit": "evil\n", "tools/husky/_/h": "h\n", "tools/other": "2\n"},
        {"tools/husky/pre-commit": PROTECTED, "tools/husky/_/h": PROTECTED},
    ),
    "a protected file that is a link of the base": (
        {"sub/AGENTS.md": "-> ../docs/guide.txt", "docs/guide.txt": "g\n"},
        {"docs/guide.txt": "obey\n"},
        {"docs/guide.txt": PROTECTED},
    ),
    "names through a chain of links, and through a link that leads back up": (
        {"a/.husky": "-> ../b", "b": "-> c/d", "c/loop": "-> ..", "c/d/x": "x\n"},
        {"c/d/x": "y\n", "c/d/deep/er": "z\n", "c/e": "e\n"},
        {"c/d/x": PROTECTED, "c/d/deep/er": PROTECTED},
    ),
    "a pattern of two names, of which a link gives the first": (
        {"ci/workflows/ci.yml": "a\n"},
        {".github": "-> ci", "ci/workflows/ci.yml": "b\n", "ci/free.txt": "f\n"},
        {".github": PROTECTED, "ci/workflows/ci.yml": PROTECTED},
    ),
    "a new link below which a protected link of the base now leads elsewhere": (
        {".husky": "-> tools/husky", "fixtures/husky/pre-commit": "evil\n"},
        {"tools": "-> fixtures"},
        {"tools": PROTECTED},
    ),
    "names without case, and with letters that file systems pass over or fold": (
        {".Husky": "-> Tools/H"},
        {"tools/h/x": "x\n", ".VSCODE/t": "t\n", ".vs\u200ccode/t": "t\n", ".v\u017fcode/u": "u\n"},
        dict.fromkeys(("tools/h/x", ".VSCODE/t", ".vs\u200ccode/t", ".v\u017fcode/u"), PROTECTED),
    ),
    "a link that leaves the tree by another link": (
        {"deep/er/file": "f\n"},
        {"in": "-> deep/er", "out": "-> in/../../..", "fine": "-> in/../../deep"},
        {"out": ESCAPING},
    ),
    "a link of the base that leaves the tree by a new link": (
        {"up": "-> x/y/../..", "x/y/f": "f\n", "z/f": "f\n", "away": "-> ../elsewhere"},
        {"x/y": "-> ../z"},
        {"x/y": ESCAPING},
    ),
    "links into git directories": (
        {"g": "-> sub"},
        {"hooks": "-> .git/hooks", "by": "-> g/../.GIT", "sub/m": "-> ../lib/.git/config"},
        dict.fromkeys(("hooks", "by", "sub/m"), ESCAPING),
    ),
    "a manifest that is a link of the base": (
        {"package.json": "-> conf/npm.json", "conf/npm.json": "{}", "conf/x.json": "{}"},
        {
            "conf/npm.json": '{"scripts": {"prepare": "x"}}',
            "conf/x.json": '{"scripts": {"a": "b"}}',
        },
        {"conf/npm.json": PROTECTED},
    ),
    "loops and links that lead nowhere": (
        {"a": "-> b"},
        {"b": "-> a", "self": "-> self", "nowhere": "-> none/../at/all"},
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_links_hide_no_finding(copying: Lab, name: str) -> None:
    before, after, expected = CASES[name]
    lay(copying.repo, {"README": "r\n", **before})
    copying.commit()
    base = await copying.base()
    ref, root = await copying.workspace(base)
    if "x/y" in after:
        (root / "x/y/f").unlink()
        (root / "x/y").rmdir()
    lay(root, after)

    changeset = await copying.workspaces.capture(base, ref)

    assert {each.path: each.kind for each in changeset.findings} == expected
    if expected:
        with pytest.raises(StateRefusal, match="your eye first"):
            await copying.apply(base, changeset, order("patch", name=str(copying.repo / "p")))
