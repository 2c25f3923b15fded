"""What runs for a moment on a host that is reached over SSH: lays the toolbox's code down there.

Sent as text and run by the host's own Python, it needs no other file of ours; the rest of the work
is done by `hosting`, out of the code that was laid down. Requests come as JSON, one a line; each is
answered by a line that begins with the request's token, for whatever the user's shell may say
besides. It ends with its input. What cannot be done here is a RuntimeError, whose text is answered.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import os
import pwd
import shutil
import sys
import tempfile
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BOOT = "/proc/sys/kernel/random/boot_id"
FOR_ALL = "/var/cache/patchyard"  # a root user's, where its home is closed to the agent
LAYING = "laying-"  # begins the name of code that is not whole yet
OLD_S = 86_400.0


def prepare(request: dict[str, Any]) -> dict[str, Any]:
    """Say who and what this host is, and whether the code lies here already."""
    if not os.path.isfile(BOOT):
        raise RuntimeError("it is no Linux, which environments need")
    base = base_folder()
    with open(BOOT, encoding="ascii") as file:
        boot = file.read().strip()
    return {
        "uid": os.getuid(),
        "python": "%d.%d.%d" % sys.version_info[:3],
        "has_code": _hash_of(_code(base, request)) == request["hash"],
        "boot": boot,
        "base": base,
    }


def lay(request: dict[str, Any]) -> dict[str, Any]:
    """Put the toolbox's code in place, as a whole or not at all."""
    base = base_folder()
    made = tempfile.mkdtemp(prefix=LAYING, dir=base)
    try:
        os.mkdir(os.path.join(made, "toolbox"))
        for name, text in request["files"].items():
            if os.path.basename(name) != name:
                raise RuntimeError("no name of a file: " + name)
            with open(os.path.join(made, "toolbox", name), "wb") as file:
                file.write(base64.b64decode(text))
        if _hash_of(made) != request["hash"]:
            raise RuntimeError("the toolbox did not arrive whole")
        for path in (made, os.path.join(made, "toolbox")):
            os.chmod(path, 0o755)  # noqa: S103 - an agent that is not root reads it
        _put_in_place(made, _code(base, request), base, request["hash"])
    finally:
        for name in os.listdir(base):
            if name == os.path.basename(made) or _is_old(base, name):
                shutil.rmtree(os.path.join(base, name), ignore_errors=True)
    return {}


def _put_in_place(made: str, place: str, base: str, wanted: str) -> None:
    if os.path.isdir(place) and _hash_of(place) != wanted:  # somebody has changed it since
        os.rename(place, tempfile.mkdtemp(prefix=LAYING, dir=base))
    try:
        os.rename(made, place)
    except OSError:  # another engine was quicker
        if _hash_of(place) != wanted:
            raise


def base_folder() -> str:
    """Return our folder on this host, made if need be; nobody else may write there."""
    is_root = os.getuid() == 0
    home = pwd.getpwuid(os.getuid()).pw_dir
    base = os.path.join(home, ".cache", "patchyard")
    if is_root and not _is_passable(home):
        base = FOR_ALL
    environments = os.path.join(base, "environments")
    os.makedirs(environments, mode=0o755, exist_ok=True)
    for path in (base, environments):
        if os.stat(path).st_uid != os.getuid():
            raise RuntimeError(path + " belongs to another user")
        os.chmod(path, 0o711 if is_root else 0o700)
    return base


def _is_passable(path: str) -> bool:
    """Whether everybody can pass through a folder and all above it."""
    while os.stat(path).st_mode & 0o001:
        if path == "/":
            return True
        path = os.path.dirname(path)
    return False


def _code(base: str, request: dict[str, Any]) -> str:
    return os.path.join(base, "toolbox-" + request["hash"])


def _hash_of(folder: str) -> str:
    """Return the hash of all files of the code in a folder, empty where there is none."""
    digest = hashlib.sha256()
    inner = os.path.join(folder, "toolbox")
    try:
        for name in sorted(os.listdir(inner)):
            with open(os.path.join(inner, name), "rb") as file:
                content = file.read()
            digest.update(("%s %d\n" % (name, len(content))).encode())
            digest.update(content)
    except OSError:
        return ""
    return digest.hexdigest()[:32]


def _is_old(base: str, name: str) -> bool:
    """Whether it is what a killed life was laying down a day ago."""
    try:
        age_s = time.time() - os.stat(os.path.join(base, name)).st_mtime
    except OSError:
        return False
    return name.startswith(LAYING) and age_s > OLD_S


def _done(request: dict[str, Any]) -> dict[str, Any]:
    """Do what is asked, by the code that was laid down where it is more than laying it."""
    own = {"prepare": prepare, "lay": lay}
    if request["do"] in own:
        return own[request["do"]](request)
    base = base_folder()
    code = _code(base, request)
    if code not in sys.path:
        sys.path.append(code)
    hosting = importlib.import_module("toolbox.hosting")
    answer: dict[str, Any] = getattr(hosting, request["do"])(request, base, code)
    return answer


def serve() -> None:
    """Answer requests until there are no more."""
    os.umask(0o022)
    sys.dont_write_bytecode = True  # what is laid down stays what was hashed
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            answer = _done(request)
        except RuntimeError as refused:
            answer = {"refused": str(refused)}
        except OSError as error:
            answer = {"refused": "%s: %s" % (error.filename or "?", error.strerror)}
        sys.stdout.write("\n%s %s\n" % (request["token"], json.dumps(answer)))
        sys.stdout.flush()


__all__ = ["BOOT", "FOR_ALL", "LAYING", "OLD_S", "base_folder", "lay", "prepare", "serve"]

if __name__ == "__main__":
    serve()
