"""Which files git reads as configuration or runs by its settings, from the settings alone."""

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

HOOKS_PATH = "core.hookspath"
# Settings with the path of a file or folder (git-config(1)): of what git runs or reads as settings,
# and of whom or what it believes. Those of `include` lie beside theirs.
PATHS = re.compile(
    rf"{HOOKS_PATH}|core\.attributesfile|include\.path|includeif\..*\.path|init\.templatedir"
    r"|gpg\.ssh\.(allowedsignersfile|revocationfile)|http\.(.*\.)?(proxy)?sslca(info|path)"
    r"|((fetch|receive)\.)?fsck\.skiplist|blame\.ignorerevsfile"
)
# Settings with a command that git runs without being asked for it by name (git-config(1)).
# `*` stands for any name.
COMMANDS: tuple[str, ...] = (
    "core.alternaterefscommand", "core.askpass", "core.editor", "core.fsmonitor", "core.gitproxy",
    "core.pager", "core.sshcommand", "credential.*.helper", "credential.helper", "diff.*.command",
    "diff.*.textconv", "diff.external", "filter.*.clean", "filter.*.process", "filter.*.smudge",
    "gc.recentobjectshook", "gpg.*.program", "gpg.program", "gpg.ssh.defaultkeycommand",
    "hook.*.command", "interactive.difffilter", "merge.*.driver", "pager.*", "remote.*.receivepack",
    "remote.*.uploadpack", "sequence.editor", "submodule.*.update", "tar.*.command",
    "trailer.*.cmd", "trailer.*.command", "uploadpack.packobjectshook",
)  # fmt: skip
IS_COMMAND = re.compile("|".join(re.escape(row).replace(r"\*", ".*") for row in COMMANDS))
# What a shell puts in the place of these leads, from the top of a checkout, to the checkout.
PUT_IN = re.compile(r"(?:\$\([^()]*\)|`[^`]*`|\$\{?(?!HOME\b|XDG_)\w+\}?)/")
BETWEEN = re.compile(r"[\s;|&(){}<>`\"']+")  # words of a command that stands in a word
INTERPRETERS = re.compile(r"(ba|da|k|z)?sh|(bun|deno|lua|node|perl|php|python|ruby)[\d.]*")
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
        elif IS_COMMAND.fullmatch(setting.key):
            for path in _files(setting.value):
                expanded = _expanded(path, home)
                yield Obeyed(key=setting.key, value=setting.value, path=expanded)


def _expanded(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _files(command: str) -> Iterator[str]:
    """Yield the words of a command that can be a file of the checkout, also where it is quoted."""
    said = command.removeprefix("!")
    for reading in dict.fromkeys((said, PUT_IN.sub("", said))):
        words = _words(reading)
        yield from _of_words(words)
        for word in words:
            inner = [each for each in BETWEEN.split(word) if each]
            if len(inner) > 1 or inner != [word]:
                yield from _of_words(inner)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _of_words(words: Sequence[str]) -> Iterator[str]:
    before = ""
    is_script = False  # the next argument is what an interpreter runs
    for number, word in enumerate(words):
        is_option = word.startswith("-")
        path = word.partition("=")[2] if is_option else word
        if before == "-m":
            module = path.replace(".", "/")
            yield from (module, f"{module}.py")
        elif "/" in path or (number > 0 and FILE_NAME.search(path)) or (is_script and path):
            yield path
        if not is_option:
            is_script = bool(INTERPRETERS.fullmatch(PurePosixPath(word).name))
        before = word


__all__ = ["COMMANDS", "HOOKS", "HOOKS_PATH", "GitSetting", "Obeyed", "obeyed"]
