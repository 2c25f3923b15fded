"""What Shadow's policy of words would say of a command line (D+, command security).

A hint for people, part of a command's result: nothing is refused by it, for words can always be put
otherwise. The walls are the environment's.
"""

from __future__ import annotations

import posixpath
import re

SAFE, APPROVAL_REQUIRED, BLOCKED = "SAFE", "APPROVAL_REQUIRED", "BLOCKED"

_BLOCKED_WORDS = frozenset(
    [
        *("sudo", "su", "doas", "useradd", "userdel", "usermod", "groupadd", "groupdel", "passwd"),
        *("chpasswd", "adduser", "deluser", "mount", "umount", "dd", "mkfs", "fdisk", "ssh", "scp"),
        *("sftp", "rsync", "eval", "exec", "source", ".", "shutdown", "reboot", "halt", "poweroff"),
        *("init", "telinit"),
    ]
)
_SAFE_WORDS = frozenset(
    [
        *("basename", "cat", "cd", "cmp", "comm", "cut", "date", "diff", "dirname", "du", "echo"),
        *("egrep", "expr", "false", "fgrep", "file", "find", "fold", "grep", "head", "id", "ls"),
        *("md5sum", "nl", "paste", "printf", "pwd", "realpath", "rev", "rg", "seq", "sha1sum"),
        *("sha256sum", "sort", "stat", "tail", "test", "[", "tr", "tree", "true", "type", "uname"),
        *("uniq", "wc", "which", "whoami"),
    ]
)
_LEADING_WORDS = frozenset(
    [
        *(
            "!",
            "builtin",
            "command",
            "do",
            "elif",
            "else",
            "env",
            "if",
            "nice",
            "nohup",
            "then",
            "time",
        ),
        *("until", "while", "xargs"),
    ]
)
_PARTS = re.compile(r"[;&|\n(){}`]|\$\(")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_BLOCKED_PLACES = re.compile(r"/proc/\w+/mem\b|(^|[\s'\"=])/sys/|\0")
_WRITING = re.compile(r">|-exec|-delete|-ok\b|-fprint|--output|(^|\s)-o")


def level_of(command: str) -> str:
    """Return SAFE (only known readers), BLOCKED (a word that reaches beyond), else in between.

    Every command of the line counts, not only the first word.
    """
    calls = [call for call in map(_call, _PARTS.split(command)) if call]
    named = {call[0] for call in calls}
    leaves = any(_leads_up(word) for word in command.split())
    is_blocked = _BLOCKED_PLACES.search(command) or any(map(_is_blocked, calls))
    if is_blocked or (leaves and "cd" not in named):
        return BLOCKED
    if leaves or not named <= _SAFE_WORDS or _WRITING.search(command):
        return APPROVAL_REQUIRED
    return SAFE


def _leads_up(word: str) -> bool:
    return ".." in word and posixpath.normpath(word.strip("'\"")).startswith("..")


def _is_blocked(call: list[str]) -> bool:
    program, *words = call
    if program == "rm":
        options = "".join(word for word in words if word.startswith("-"))
        return "r" in options.lower() and any(word in {"/", "/*"} for word in words)
    return program in _BLOCKED_WORDS or program.startswith("mkfs.")


def _call(part: str) -> list[str]:
    """Return the program that a simple command starts, without folder and quotes, and the rest."""
    words = [word.replace("\\", "").strip("'\"") for word in part.split()]
    for number, word in enumerate(words):
        leads = word in _LEADING_WORDS or _ASSIGNMENT.match(word) or word.startswith("-")
        if word and not leads:
            return [word.rpartition("/")[2] or word, *words[number + 1 :]]
    return []


__all__ = ["APPROVAL_REQUIRED", "BLOCKED", "SAFE", "level_of"]
