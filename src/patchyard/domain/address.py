"""How a host is named that is reached over SSH. Pure."""

import re
from dataclasses import dataclass

from patchyard.domain.errors import UsageError, quoted

ADDRESS = re.compile(
    r"^(?:(?P<user>[^@\s]+)@)?(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^@:\s\[\]/-][^@:\s\[\]/]*))"
    r"(?::(?P<port>\d{1,5}))?$"
)


@dataclass(frozen=True, kw_only=True)
class Address:
    """A host as its resource names it."""

    host: str  # a name of the OpenSSH configuration, or of the network
    user: str = ""  # empty: as the configuration says
    port: int = 0  # 0: likewise

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Return what `[user@]host[:port]` says. Raises UsageError."""
        found = ADDRESS.match(text.strip())
        port = int(found["port"] or 0) if found else 0
        if found is None or port > 65_535:
            raise _refused(text)
        return cls(host=found["v6"] or found["host"], user=found["user"] or "", port=port)

    @classmethod
    def typed(cls, text: str) -> "Address":
        """Return the same of what is typed now, where a port that is said is one: never 0.

        Raises UsageError.
        """
        said, found = cls.parse(text), ADDRESS.match(text.strip())
        port = found["port"] if found else None
        if port and not (port.isascii() and said.port):
            raise _refused(text)
        return said

    @property
    def command(self) -> str:
        """How a person goes there: `ssh -p 2222 me@host`."""
        return self.command_with()

    def command_with(self, *options: str) -> str:
        """Return that command with further options."""
        port = ("-p", str(self.port)) if self.port else ()
        user = f"{self.user}@" if self.user else ""
        return " ".join(("ssh", *options, *port, f"{user}{self.host}"))


def _refused(text: str) -> UsageError:
    return UsageError(
        f"{quoted(text)} is no address of a host",
        hint="write it as `host`, `user@host` or `user@host:port`, with a port from 1 to 65535",
    )


__all__ = ["ADDRESS", "Address"]
