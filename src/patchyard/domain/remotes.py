"""Where a repository is cloned from: an address by https, ssh or file, without credentials. Pure.

What is refused is told without the address itself: a password or a token may stand in it.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from patchyard.domain.addresses import Misnamed, parted, shown
from patchyard.domain.errors import UsageError
from patchyard.domain.network import is_plain_path

PORTS = {"https": 443, "ssh": 22}
PROTOCOLS = "file:https:ssh"
"""What git may speak, as GIT_ALLOW_PROTOCOL has it (git(1))."""
SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)(?:://|::)")
AT_HOST = re.compile(r"(?P<user>[\w.+-]+)@(?P<host>[^\s:/@]+):(?P<path>(?!-)\S+)")
WITHOUT_USER = re.compile(r"[\w.-]+:\S+")  # HOST:PATH, which git takes as ssh
USER = re.compile(r"(?!-)[\w.+-]+", re.ASCII)
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
CLONED = re.compile(r"/clones/[0-9a-f]{16}/[^/]+")
UNFIT = re.compile(r"[^A-Za-z0-9._+-]+")
LONGEST_NAME = 64
WAYS = (
    "say https://HOST/PATH, ssh://USER@HOST/PATH, USER@HOST:PATH or file:///PATH;"
    " a password or token does not belong there"
)


@dataclass(frozen=True, kw_only=True)
class Remote:
    """One repository that can be cloned."""

    url: str  # as it was said, and as git is given it
    scheme: str  # https, ssh or file
    host: str = ""  # in its one spelling; empty: this machine
    port: int = 0
    path: str = ""  # there

    @property
    def place(self) -> str:
        """Host and port, as rules for secrets name them; empty for this machine."""
        return f"{shown(self.host)}:{self.port}" if self.host else ""

    @property
    def has_usual_port(self) -> bool:
        """Whether the port is the one that its protocol has where none is named."""
        return self.port == PORTS.get(self.scheme, 0)

    @property
    def server(self) -> str:
        """As `place`, without a port that need not be named."""
        return shown(self.host) if self.has_usual_port else self.place

    @property
    def source(self) -> str:
        """What git is told to read: the folder itself where it lies on this machine."""
        return self.path if self.scheme == "file" else self.url

    @property
    def name(self) -> str:
        """A name for a folder: the last part of the path, in plain characters."""
        last = self.path.rstrip("/").rpartition("/")[2].removesuffix(".git")
        plain = UNFIT.sub("-", last).strip(".-")[:LONGEST_NAME]
        return plain or "repository"


def is_remote(text: str) -> bool:
    """Whether a text names a repository by an address, and not by a folder of this machine."""
    return SCHEME.match(text) is not None or AT_HOST.fullmatch(text) is not None


def cure_for(place: str) -> str:
    """Return how a repository is named, for what is neither a folder nor an address."""
    folder = "name a folder inside a checkout"
    return f"{folder}, or an address: {WAYS}" if WITHOUT_USER.fullmatch(place) else folder


def looks_cloned(top: str) -> bool:
    """Whether a checkout lies as clones of ours do, for the words that are said of it."""
    return CLONED.search(top) is not None


def remote_of(text: str) -> Remote:
    """Return the repository that an address names.

    Raises UsageError, which never repeats the address, for credentials in it, for what git could
    read as an option or as a command, for other protocols, and for what is no address.
    """
    if CONTROL.search(text):
        raise _refused("it holds control characters")
    match = SCHEME.match(text)
    if match is None:
        at_host = AT_HOST.fullmatch(text)
        if at_host is None:
            raise _refused("it is no address of a repository")
        path = f"/{at_host['path'].removeprefix('/')}"
        return _over_ssh(text, at_host["user"], at_host["host"], path)
    scheme = match["scheme"].lower()
    if scheme not in {"file", *PORTS} or not match[0].endswith("://"):
        raise _refused(_why_not(scheme))
    rest = text[match.end() :]
    if scheme == "file":
        return _here(text, rest)
    authority, slash, path = rest.partition("/")
    user, _, place = authority.rpartition("@")
    if scheme == "ssh":
        return _over_ssh(text, user, place, slash + path)
    if user:
        raise _refused("it names a user, or holds a password or token")
    if "?" in path or "#" in path:
        raise _refused("it has a query or a fragment")
    host, port = _host(place)
    return Remote(
        url=f"https://{rest}",
        scheme="https",
        host=host,
        port=port or PORTS["https"],
        path=_path(slash + path),
    )


def _over_ssh(text: str, user: str, place: str, path: str) -> Remote:
    if ":" in user:
        raise _refused("it holds a password")
    if user and USER.fullmatch(user) is None:
        raise _refused("its user is no plain name")
    host, port = _host(place)
    return Remote(url=text, scheme="ssh", host=host, port=port or PORTS["ssh"], path=_path(path))


def _here(text: str, rest: str) -> Remote:
    path = unquote(rest, errors="surrogateescape")
    if not path.startswith("/") or CONTROL.search(path):
        raise _refused("after file:// a whole path must follow, such as file:///srv/shop.git")
    return Remote(url=text, scheme="file", path=path)


def _host(place: str) -> tuple[str, int | None]:
    if place.startswith("-"):
        raise _refused("its host begins like an option")
    try:
        return parted(place)
    except Misnamed as error:
        raise _refused("its host, or the port behind it, is none") from error


def _path(path: str) -> str:
    if not path.strip("/"):
        raise _refused("it names a host, and no repository there")
    if not is_plain_path(path) or path.startswith("/-"):
        raise _refused("its path can be read in more than one way")
    return path


def _why_not(scheme: str) -> str:
    if scheme in {"http", "git", "ftp", "ftps"}:
        return f"what comes by {scheme}:// can be changed on its way"
    return f"{scheme!r} is none of the protocols https, ssh and file"


def _refused(why: str) -> UsageError:
    return UsageError(f"that repository cannot be cloned: {why}", hint=WAYS)


__all__ = [
    "PORTS",
    "PROTOCOLS",
    "WAYS",
    "Remote",
    "cure_for",
    "is_remote",
    "looks_cloned",
    "remote_of",
]
