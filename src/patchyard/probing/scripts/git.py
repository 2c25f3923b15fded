"""Traps for git: whoever calls it where they lie runs a program of theirs.

Each leaves a file named after its token in the folder `ran` when it is sprung.
"""

from __future__ import annotations

import os
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Given = dict[str, Any]

CARELESS = (
    *(["status"], ["add", "--all"], ["diff", "HEAD"], ["commit", "--quiet", "--message", "x"]),
    ["checkout", "--quiet", "HEAD", "."],
)
HOOKS = (
    *("applypatch-msg", "commit-msg", "post-applypatch", "post-checkout", "post-commit"),
    *("post-index-change", "post-merge", "pre-applypatch", "pre-commit", "pre-merge-commit"),
    *("prepare-commit-msg", "reference-transaction"),
)


def hooks(given: Given) -> None:
    """Put hooks into the repository, and name their folder in its configuration."""
    folder = os.path.join(given["workspace"], ".git", "hooks")
    _hooks(folder, given)
    _order(given["workspace"], "[core]\n\thooksPath = .git/hooks\n")


def fsmonitor(given: Given) -> None:
    """Let a program of ours say which files have changed."""
    _order(given["workspace"], '[core]\n\tfsmonitor = "%s false"\n' % _trap(given))


def filters(given: Given) -> None:
    """Let programs of ours translate each file."""
    name = "f" + given["token"]
    orders = "clean = {0} cat\n\tsmudge = {0} cat\n\trequired = true".format(_trap(given))
    _order(given["workspace"], '[filter "%s"]\n\t%s\n' % (name, orders.replace("\n", "\n\t")))
    _attribute(given, "filter=" + name)


def differences(given: Given) -> None:
    """Let programs of ours show what is different."""
    name = "d" + given["token"]
    orders = "textconv = {0} cat\n\tcommand = {0}".format(_trap(given))
    _order(given["workspace"], '[diff "%s"]\n\t%s\n' % (name, orders))
    _attribute(given, "diff=" + name)


def nested(given: Given) -> None:
    """Put a repository with traps of its own inside."""
    _nested(given, os.path.join(given["near"], "nested", ".git"))


def elsewhere(given: Given) -> None:
    """Put a file in the place of a repository, which names an armed one."""
    armed = os.path.join(given["near"], "armed")
    _nested(given, armed)
    os.mkdir(os.path.join(given["near"], "nested"))
    _write(os.path.join(given["near"], "nested", ".git"), "gitdir: ../armed\n")
    _write(os.path.join(given["near"], "nested", "file"), "file\n")


def alternates(given: Given) -> None:
    """Borrow the objects of a repository outside."""
    places = os.path.join(given["workspace"], ".git", "objects", "info")
    os.makedirs(places, exist_ok=True)
    _write(os.path.join(places, "alternates"), given["objects"] + "\n")


def armed_checkout(given: Given) -> None:
    """Arm the checkout itself, before the engine ever looks at it."""
    hooks(given)
    fsmonitor(given)
    filters(given)


def shadow(given: Given) -> None:
    """Put modules into the tree that are called as those of the library."""
    code = "open(%r, 'w').close()\n" % _mark(given)
    for name in ("json", "subprocess", "sitecustomize", "usercustomize", "socket"):
        _write(os.path.join(given["workspace"], name + ".py"), code)


def careless(given: Given) -> None:
    """Use git where the traps lie, and a program that imports from there."""
    variables = {"PATH": os.environ["PATH"], "HOME": given["folder"]}
    variables["GIT_CONFIG_NOSYSTEM"] = "1"
    person = ["-c", "user.name=Ada", "-c", "user.email=ada@example.invalid"]
    trust = ["-c", "safe.directory=*"]
    nested = os.path.join(given["near"], "nested")
    for folder in (given["workspace"], *([nested] if os.path.isdir(nested) else [])):
        for words in CARELESS:
            _run(["git", *trust, *person, *words], folder, variables)
    _run([sys.executable, "-c", "import json, subprocess, socket"], given["workspace"], variables)
    if "blob" in given:
        _run(["git", *trust, "cat-file", "blob", given["blob"]], given["workspace"], variables)


def _run(words: list[str], folder: str, variables: dict[str, str]) -> None:
    nothing = subprocess.DEVNULL
    subprocess.run(words, cwd=folder, env=variables, check=False, stdin=nothing, stderr=nothing)


def _nested(given: Given, place: str) -> None:
    for folder in ("objects", "refs/heads", "info"):
        os.makedirs(os.path.join(place, folder))
    _write(os.path.join(place, "HEAD"), "ref: refs/heads/main\n")
    settings = '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = "%s false"\n'
    _write(os.path.join(place, "config"), settings % _trap(given))
    _write(os.path.join(os.path.dirname(place), "file"), "file\n")


def _attribute(given: Given, text: str) -> None:
    _write(os.path.join(given["near"], ".gitattributes"), "* %s\n" % text)
    _write(os.path.join(given["near"], "file"), "some text\n")
    info = os.path.join(given["workspace"], ".git", "info")
    os.makedirs(info, exist_ok=True)
    with open(os.path.join(info, "attributes"), "a", encoding="ascii") as file:
        file.write("%s/* %s\n" % (given["inner"], text))


def _hooks(folder: str, given: Given) -> None:
    os.makedirs(folder, exist_ok=True)
    for name in HOOKS:
        path = os.path.join(folder, name)
        _write(path, "#!/bin/sh\n: > '%s'\n" % _mark(given))
        os.chmod(path, 0o755)


def _order(repository: str, text: str) -> None:
    with open(os.path.join(repository, ".git", "config"), "a", encoding="ascii") as file:
        file.write(text)


def _trap(given: Given) -> str:
    """Return a command that leaves the mark; it takes arguments and input as they come."""
    return "touch %s;" % _mark(given)


def _mark(given: Given) -> str:
    return str(os.path.join(given["ran"], given["token"]))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


__all__ = [
    "CARELESS",
    "HOOKS",
    "alternates",
    "armed_checkout",
    "careless",
    "differences",
    "elsewhere",
    "filters",
    "fsmonitor",
    "hooks",
    "nested",
    "shadow",
]
