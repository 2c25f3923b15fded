"""Results as they travel: success, failure, and the exception that becomes a failure."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CODES = {
    errno.ENOENT: "FILE_NOT_FOUND",
    errno.ENOTDIR: "NOT_A_DIRECTORY",
    errno.EISDIR: "IS_A_DIRECTORY",
    errno.EACCES: "PERMISSION_DENIED",
    errno.EPERM: "PERMISSION_DENIED",
    errno.EROFS: "READ_ONLY",
    errno.ENOSPC: "NO_SPACE",
    errno.EDQUOT: "NO_SPACE",
    errno.EFBIG: "FILE_TOO_LARGE",
    errno.ENAMETOOLONG: "VALIDATION_ERROR",
    errno.ELOOP: "PATH_OUTSIDE_WORKSPACE",
}


class Refusal(Exception):
    """An expected failure: becomes the call's result."""

    def __init__(self, code: str, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.result = failure(code, message, **fields)


def success(message: str, **fields: Any) -> dict[str, Any]:
    """Return the result of an operation that did what it was asked."""
    return {"success": True, "message": message, **fields}


def failure(code: str, message: str, **fields: Any) -> dict[str, Any]:
    """Return the result of an operation that did not, with its error code."""
    return {"success": False, "message": message, "error": code, **fields}


def internal(error: Exception) -> dict[str, Any]:
    """Return the failure that a defect of this toolbox amounts to."""
    return failure("INTERNAL_ERROR", "%s: %s" % (type(error).__name__, error))


def from_os_error(error: OSError, shown: str) -> dict[str, Any]:
    """Return the failure that the system's answer about `shown` amounts to."""
    number = error.errno or 0
    reason = os.strerror(number) if number else str(error)
    told = "%s: %s" % (shown, reason) if shown else reason
    return failure(_CODES.get(number, "IO_ERROR"), told)


__all__ = ["Refusal", "failure", "from_os_error", "internal", "success"]
