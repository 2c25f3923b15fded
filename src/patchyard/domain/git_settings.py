"""Which files git reads as configuration or runs by its settings, from the settings alone."""

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

HOOKS_PATH = "core.hookspath"
# Settings with the path of a file or folder (git-config(1)); those of `include` lie beside theirs.
PATHS = re.compile(rf"{HOOKS_PATH}|core\.attributesfile|include\.path|includeif\..*\.path")
# Settings with a command that git runs without being asked for it by name (git-config(1)).
COMMANDS = re.compile(
    r"core\.(alternaterefscommand|askpass|editor|fsmonitor|gitproxy|pager|sshcommand)"
    r"|sequence\.editor|credential\.(.*\.)?helper|diff\.external|diff\..*\.(command|textconv)"
    r"|filter\..*\.(clean|process|smudge)|gpg\.(.*\.)?program|hook\..*\.command"
    r"|interactive\.difffilter|merge\..*\.driver|pager\..*|trailer\..*\.(cmd|command)"
    r"|uploadpack\.packobjectshook"
)
FILE_NAME = re.compile(r"\w\.\w+\Z")  # how an argument ends that is a file of the current folder
# What git looks for in the folder of hooks (githooks(5)).
HOOKS: tuple[str, ...] = (
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "p4-changelist", "p4-post-changelist",
    "p4-pre-submit", "p4-prepare-changelist", "post-applypatch", "post-checkout", "post-commit",
    "post-index-change", "post-merge", "post-receive", "post-rewrite", "post-update",
    "pre-applypatch", "pre-auto-gc", "pre-commit", "pre-merge-commit", "pre-push", "pre-rebase",
    "pre-receive", "prepare-commit-msg", "proc-receive", "push-to-checkout",
    "reference-transaction", "sendemail-validate", "update",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GitSetting:
    """One setting of the user's configuration, of whatever level."""

    key: str  # section and variable in lower case
    value: str
    file: str  # absolute path of the file that says it; empty: none
    is_of_repository: bool = False  # said by the repository's own files, or what they include


@dataclass(frozen=True, kw_only=True)
class Obeyed:
    """A file or folder that git reads or runs by a setting."""

    key: str
    value: str
    path: str  # absolute, or from the top of the checkout


def obeyed(settings: Iterable[GitSetting], *, home: str) -> Iterator[Obeyed]:
    """Yield what the settings name. `home` is the user's, for `~/`."""
    for setting in settings:
        if PATHS.fullmatch(setting.key):
            path = _expanded(setting.value.removeprefix(":(optional)"), home)
            if setting.key.startswith("include"):
                path = str(PurePosixPath(setting.file).parent / path)
            yield Obeyed(key=setting.key, value=setting.value, path=path)
        elif COMMANDS.fullmatch(setting.key):
            for path in _files(setting.value):
                expanded = _expanded(path, home)
                yield Obeyed(key=setting.key, value=setting.value, path=expanded)


def _expanded(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _files(command: str) -> Iterator[str]:
    """Yield the words of a command that can be a file of the checkout."""
    try:
        words = shlex.split(command.removeprefix("!"))
    except ValueError:
        words = command.removeprefix("!").split()
    for number, word in enumerate(words):
        path = word.partition("=")[2] if word.startswith("-") else word
        if "/" in path or (number > 0 and FILE_NAME.search(path)):
            yield path


__all__ = ["HOOKS", "HOOKS_PATH", "GitSetting", "Obeyed", "obeyed"]
