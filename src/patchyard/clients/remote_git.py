"""Git that talks to a server of others: our configuration alone, bounded in time and size.

What a server says is a stranger's: its answers, its redirects and how long it takes. A credential
is in the environment of that one git, named for one host, and follows no redirect.
"""

import asyncio
import contextlib
import os
import pwd
import re
import selectors
import shlex
import shutil
import subprocess
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Self, cast

from patchyard.clients.git import Finished, Git, no_git
from patchyard.clients.waited import INTERRUPTS, LOOK_S, end
from patchyard.domain.errors import Unavailable, UsageError
from patchyard.domain.network import SecretRule, is_below, secret_of
from patchyard.domain.remotes import PROTOCOLS, Remote
from patchyard.domain.secret_forms import replaced

WHOLE_S = 3600.0  # of one clone or fetch
SILENT_S = 300.0  # without a word, before it counts as hanging: git and servers tell their progress
PATIENCE_S = 5.0  # that git may still run once an interrupt has come
MEMORY_BYTES = 4 * 1024**3  # of each process: a list of references has no end of its own
SAID_BYTES = 64 * 1024  # kept of what is said on standard error, from its end
OUT_BYTES = 4 * 1024**2  # of standard output; more is no answer to what is asked
BLOCK, KIB = 512, 1024  # the units of ulimit (POSIX; bash and dash)
USER = "x-access-token"  # goes before a token; forges take any name there
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PASSED = (
    *("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"),
    *("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSH_AUTH_SOCK"),
)
"""Variables that say how the world is reached from here; an empty one says nothing."""
SSH = (
    "ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=15 -oServerAliveCountMax=4"
    " -oForwardAgent=no -oForwardX11=no -oClearAllForwardings=yes -oPermitLocalCommand=no"
)
SETTINGS: Mapping[str, str] = {
    "core.bigFileThreshold": "32m",  # what is larger is not held in memory as a pack is read
    "credential.helper": "",
    "fetch.uriProtocols": "",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "120",
    "http.sslVerify": "true",
    "transfer.bundleURI": "false",
}
BOUNDED = 'trap "" XFSZ; ulimit -f "$1" 2>/dev/null; ulimit -d "$2" 2>/dev/null; shift 2; exec "$@"'
"""Without the signal git says itself that a file has become too large, and deletes it.

A limit that is lower already cannot be raised, and stays.
"""


@dataclass(frozen=True, kw_only=True)
class Credential:
    """What one server is told of who asks; no other one is."""

    header: str = field(repr=False)  # Authorization: …
    secret: str = field(repr=False)
    name: str  # of the variable that holds it

    def __str__(self) -> str:
        """Return a name for it that is no secret."""
        return self.name


@dataclass(frozen=True, kw_only=True)
class RemoteGit(Git):
    """Git for one remote."""

    remote: Remote
    environ: Mapping[str, str] = field(repr=False)
    credential: Credential | None = None
    most_bytes: int  # of each file that it writes
    whole_s: float = WHOLE_S
    silent_s: float = SILENT_S
    mark: str = ""  # NAME=value, in the environment of all that it starts

    def environment(self) -> dict[str, str]:
        """Return the whole environment git runs with; a credential stands in it alone."""
        made = super().environment()
        made.update({name: self.environ[name] for name in PASSED if self.environ.get(name)})
        if "SSL_CERT_FILE" in made:
            made.setdefault("GIT_SSL_CAINFO", made["SSL_CERT_FILE"])
        made["GIT_ALLOW_PROTOCOL"] = PROTOCOLS
        made["GIT_SSH_COMMAND"] = SSH + _ssh_settings(self.environ)
        made["GIT_SSH_VARIANT"] = "ssh"
        if self.mark:
            name, _, value = self.mark.partition("=")
            made[name] = value
        if self.credential is not None:
            made["GIT_CONFIG_COUNT"] = "1"
            made["GIT_CONFIG_KEY_0"] = f"http.https://{self.remote.place}/.extraHeader"
            made["GIT_CONFIG_VALUE_0"] = self.credential.header
        return made

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return the argument list, below a shell that sets the bounds."""
        follow = "initial" if self.credential is None else "false"
        told = {**SETTINGS, "http.followRedirects": follow}
        settings = [part for key, value in told.items() for part in ("-c", f"{key}={value}")]
        git, pager, *rest = super().command(arguments)
        bounds = (str(max(1, self.most_bytes // BLOCK)), str(MEMORY_BYTES // KIB))
        return ["/bin/sh", "-c", BOUNDED, "sh", *bounds, git, pager, *settings, *rest]

    def attempt(
        self,
        *arguments: str,
        stdin: bytes | int = b"",
        cwd: Path | None = None,
        timeout_s: float | None = None,
    ) -> Finished:
        """Run git and return what it came to; what it said holds no secret.

        Standard input is not used. Raises Unavailable without a git command, where it is silent for
        long, takes longer than it may or says more than it should; CancelledError where an
        interrupt ended it.
        """
        del stdin
        if shutil.which("git", path=self.environment()["PATH"]) is None:
            raise no_git()
        process = subprocess.Popen(
            self.command(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd or self.home,
            env=self.environment(),
            umask=0o022,
            process_group=0,  # Ctrl-C is for us
        )
        INTERRUPTS.groups.add(process.pid)
        try:
            with _Listening(process) as heard:
                self._wait(heard, arguments[0], timeout_s or self.whole_s)
            code = process.wait()
        except BaseException:
            end(process)
            raise
        finally:
            INTERRUPTS.groups.discard(process.pid)
        said = heard.said.decode("utf-8", "replace")
        return Finished(code=code, out=bytes(heard.out), err=self._masked(said))

    def _wait(self, heard: "_Listening", verb: str, whole_s: float) -> None:
        """Listen until git has closed both its outputs."""
        before, until = INTERRUPTS.count, time.monotonic() + whole_s
        interrupted = False
        while heard.listen(LOOK_S):
            now = time.monotonic()
            if INTERRUPTS.count != before and not interrupted:
                interrupted, until = True, min(until, now + PATIENCE_S)
            if now < until and now - heard.last < self.silent_s and len(heard.out) <= OUT_BYTES:
                continue
            if interrupted:
                raise asyncio.CancelledError
            late = f"has not sent all of the repository in {whole_s:.0f} s" if now >= until else ""
            raise self._given_up(verb, heard, late)

    def _given_up(self, verb: str, heard: "_Listening", late: str) -> Unavailable:
        where = self.remote.host or self.remote.path
        why = late or f"has sent nothing for {self.silent_s:.0f} s"
        if len(heard.out) > OUT_BYTES:
            why = f"answers with more than {OUT_BYTES // 1024**2} MiB where a line was asked for"
        said = self._masked(heard.said.decode("utf-8", "replace"))[-4000:]
        return Unavailable(
            f"{where} {why}",
            hint="try again later, or look at the server and at the way to it",
            details={"verb": verb, "stderr": said},
        )

    def _masked(self, said: str) -> str:
        """Return what was said without the credential, which a server can say after us."""
        if self.credential is None:
            return said
        secret = self.credential.secret
        spoken = (secret, self.credential.header.rpartition(" ")[2], secret.partition(":")[2])
        return replaced(said, [each for each in spoken if each], f"({self.credential.name})")


class _Listening:
    """What a program says, bounded: the beginning of its answer, the end of its words."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.out, self.said = bytearray(), bytearray()
        self.last = time.monotonic()  # when something was heard
        self._pipes = [cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stderr)]
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        for pipe, into in zip(self._pipes, (self.out, self.said), strict=True):
            self._selector.register(pipe, selectors.EVENT_READ, into)
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for pipe in self._pipes:
            pipe.close()

    def listen(self, timeout_s: float) -> bool:
        """Take what is there within that time; whether something can still come."""
        for key, _ in self._selector.select(timeout_s):
            piece = os.read(key.fd, SAID_BYTES)
            if not piece:
                self._selector.unregister(key.fileobj)
                continue
            self.last = time.monotonic()
            key.data.extend(piece)
            if key.data is self.said:
                del self.said[:-SAID_BYTES]
        return bool(self._selector.get_map())


def credential_for(
    remote: Remote, rules: Sequence[str], environ: Mapping[str, str]
) -> Credential | None:
    """Return what a remote is told, by the rules `[SCHEME:]NAME@HOST[:PORT][/PATH]`.

    The rule with the longest path counts; None where no rule names its host. Without a scheme the
    value is a token, given as the password that forges take it for. Raises UsageError where the
    variable is not there, or holds what no header can.
    """
    named = [(secret_of(text), ":" in text.partition("@")[0]) for text in rules]
    fit = [
        (rule, has_scheme)
        for rule, has_scheme in named
        if remote.scheme == "https"
        and (rule.rule.place, rule.rule.is_plain) == (remote.place, False)
        and is_below(remote.path, rule.rule.path)
    ]
    if not fit:
        return None
    rule, has_scheme = max(fit, key=lambda each: len(each[0].rule.path))
    return _credential(rule, environ, has_scheme=has_scheme)


def token_credential(remote: Remote, name: str, environ: Mapping[str, str]) -> Credential | None:
    """Return what one remote is told: the token that the variable `name` holds.

    None without a name. Raises UsageError where the remote is not reached by https.
    """
    if not name:
        return None
    if remote.scheme != "https":
        raise UsageError(
            f"a token is for https, and that repository is reached by {remote.scheme}",
            hint="name its https address, or leave the token out",
        )
    if VARIABLE.fullmatch(name) is None:
        raise UsageError(
            "that is no name of a variable",
            hint="name the variable that holds the token, not the token itself",
        )
    return credential_for(remote, [f"{name}@{remote.place}"], environ)


def _credential(rule: SecretRule, environ: Mapping[str, str], *, has_scheme: bool) -> Credential:
    secret = environ.get(rule.name, "")
    if not secret:
        named = rule.name if rule.name.isupper() else "of that name"  # it may be the secret itself
        raise UsageError(
            f"there is no variable {named}, which is to hold the credential of {rule.rule.host}",
            hint="set and export it, or name it no more",
        )
    if not secret.isprintable() or not secret.isascii():
        raise UsageError(
            f"the value of {rule.name} holds characters that no credential can",
            hint="set it again, without a line break at its end",
        )
    plain = {"bearer": "Bearer", "token": "token"}.get(rule.scheme if has_scheme else "", "")
    if plain:
        return Credential(header=f"Authorization: {plain} {secret}", secret=secret, name=rule.name)
    pair = secret if has_scheme else f"{USER}:{secret}"  # basic: USER:PASSWORD
    header = f"Authorization: Basic {b64encode(pair.encode()).decode()}"
    return Credential(header=header, secret=secret, name=rule.name)


def safe_directories(path: str) -> bytes:
    """Return a configuration in which git may read one repository, of any owner."""
    written = b"[safe]\n"
    for place in (path, f"{path.rstrip('/')}/.git"):
        quoted = os.fsencode(place).replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        written += b'\tdirectory = "' + quoted + b'"\n'
    return written


def _ssh_settings(environ: Mapping[str, str]) -> str:
    """Return where ssh finds a user's files whose HOME is another than the one of the system."""
    home = environ.get("HOME", "")
    with contextlib.suppress(KeyError):
        if not home or Path(home) == Path(pwd.getpwuid(os.geteuid()).pw_dir):
            return ""
    config, known = Path(home, ".ssh/config"), Path(home, ".ssh/known_hosts")
    said = " " + shlex.quote(f'-oUserKnownHostsFile="{known}"')  # ssh parts words by itself, too
    return f" -F {shlex.quote(str(config))}{said}" if config.is_file() else said


__all__ = [
    "MEMORY_BYTES",
    "PASSED",
    "SILENT_S",
    "WHOLE_S",
    "Credential",
    "RemoteGit",
    "credential_for",
    "safe_directories",
    "token_credential",
]
