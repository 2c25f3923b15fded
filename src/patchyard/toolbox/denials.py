"""Which entry a user may not use, whose it is, and what gives the user the right to it."""

from __future__ import annotations

import os
import shlex
import stat

_FOLDER_RIGHTS = stat.S_IRWXU
_FILE_RIGHTS = stat.S_IRUSR | stat.S_IWUSR


class Denied(PermissionError):
    """The system's refusal, and the entry that it is about."""

    def __init__(self, cause: PermissionError, shown: str, found: os.stat_result) -> None:
        """Take the refusal, the path from the workspace, and what `stat` says of the entry."""
        super().__init__(cause.errno, cause.strerror)
        self.shown = shown
        self.found = found

    def told(self, root: str) -> str:
        """Say whose the entry is, who asked, and the cure; `root` is the workspace's path."""
        uid = os.geteuid()
        whose = "the workspace" if self.shown == "." else self.shown
        owner = "UID %d%s" % (self.found.st_uid, "" if self.found.st_uid else " (root)")
        mode = stat.S_IMODE(self.found.st_mode)
        message = "%s belongs to %s, mode %04o, and the call ran as UID %d; %s"
        return message % (whose, owner, mode, uid, self._cure(uid, root))

    def _cure(self, uid: int, root: str) -> str:
        is_folder = stat.S_ISDIR(self.found.st_mode)
        path = shlex.quote(os.path.normpath(os.path.join(root, self.shown)))
        if self.found.st_uid != uid:
            return "run `chown -h%s %d %s` as root, to give it to that user" % (
                "R" if is_folder else "",
                uid,
                path,
            )
        wanted = _FOLDER_RIGHTS if is_folder else _FILE_RIGHTS
        if self.found.st_mode & wanted != wanted:
            return "run `chmod u+rwX %s`, to let that user in" % path
        return "its mode allows it: look at `lsattr -d %s`, or at a security module" % path


def denied_folder(cause: PermissionError, shown: str, folder: int) -> Denied:
    """Return the refusal as one of the open folder."""
    return Denied(cause, shown or ".", os.fstat(folder))


def denied_entry(cause: PermissionError, shown: str, parent: int, name: bytes) -> Denied:
    """Return the refusal as one of what lies under `name`; of its folder where that is closed."""
    try:
        found = os.stat(name or b".", dir_fd=parent, follow_symlinks=False)
    except OSError:
        return denied_folder(cause, os.path.dirname(shown), parent)
    return Denied(cause, shown, found)


def denied_change(cause: PermissionError, shown: str, parent: int, name: bytes) -> Denied:
    """Return the refusal of a change in a folder: the folder's, else that of the entry in it."""
    if name and os.access(".", os.W_OK | os.X_OK, dir_fd=parent):
        return denied_entry(cause, shown, parent, name)
    return denied_folder(cause, os.path.dirname(shown) if name else shown, parent)


__all__ = ["Denied", "denied_change", "denied_entry", "denied_folder"]
