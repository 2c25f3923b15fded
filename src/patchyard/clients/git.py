"""The git command, run so that only its arguments and our own configuration count.

Blocking: callers run it in a worker thread. Knows no repository layout and no plan.
"""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, cast

from patchyard.clients.deaths import FREE_MEMORY, death
from patchyard.clients.waited import completed
from patchyard.domain.changeset import LARGEST_TEXT
from patchyard.domain.errors import PatchyardError, Unavailable, WorkFailed
from patchyard.domain.machine import FREE_SPACE, is_full_disk

UNWRITTEN = "unable to write file"  # of a content git names no cause; only the disk is one
PIECE_BYTES = 1024 * 1024
SAID_BYTES = 64 * 1024  # read of what a git says of its failure
READING_S, WRITING_S = 5.0, 30.0  # that a git may still run once an interrupt has come
SETTINGS: Mapping[str, str] = {
    "core.attributesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.checkStat": "minimal",
    "core.excludesFile": "/dev/null",
    "core.fsmonitor": "false",
    "core.fsync": "objects,derived-metadata",
    "core.fsyncMethod": "batch",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.quotePath": "false",
    "core.trustctime": "false",
    "core.untrackedCache": "false",
    "checkout.workers": "0",
    "commit.gpgSign": "false",
    "diff.algorithm": "myers",
    "diff.renameLimit": "1000",
    "fastimport.unpackLimit": "1",
    "fetch.fsckObjects": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.unpackLimit": "1",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "pack.compression": "1",
    "pack.threads": "2",
    "protocol.version": "2",
    "submodule.recurse": "false",
    "tag.gpgSign": "false",
}
STREAMING: Mapping[str, str] = {  # what is larger is neither held nor mapped whole
    "core.bigFileThreshold": str(LARGEST_TEXT),
    "core.packedGitLimit": "32m",
    "core.packedGitWindowSize": "4m",
}


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What one run of git came to."""

    code: int
    out: bytes
    err: str


@dataclass(frozen=True, kw_only=True)
class Git:
    """One way to run git: a clean environment, our settings, and where it looks.

    `home` is an empty folder of ours; `config` the only configuration file beside a repository's.
    """

    home: Path
    config: Path
    git_dir: Path | None = None
    work_tree: Path | None = None
    index: Path | None = None
    extra: Mapping[str, str] = field(default_factory=dict)  # further environment variables
    further: Mapping[str, str] = field(default_factory=dict)  # further settings
    owner: tuple[int, int] | None = None  # run as this user and group (root only)
    held: tuple[int, ...] = ()  # descriptors of folders by which it looks; see `by_descriptor`

    def at(
        self,
        git_dir: Path | None = None,
        *,
        work_tree: Path | None = None,
        index: Path | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> "Git":
        """Return the same git that looks elsewhere."""
        return replace(
            self, git_dir=git_dir, work_tree=work_tree, index=index, extra=dict(extra or {})
        )

    def streaming(self) -> "Git":
        """Return the same git for contents of any size: it holds none of a large one.

        It shows what is larger than LARGEST_TEXT as binary, whose lines are not told apart.
        """
        return replace(self, further={**self.further, **STREAMING})

    def environment(self) -> dict[str, str]:
        """Return the whole environment git runs with."""
        made = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "LC_ALL": "C",
            "GIT_ALLOW_PROTOCOL": "",  # none, whatever a configuration says
            "GIT_ASKPASS": "false",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(self.config),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_PAGER": "cat",
            "GIT_SSH_COMMAND": "false",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_TRACE2": "0",
            "GIT_TRACE2_EVENT": "0",
            "GIT_TRACE2_PERF": "0",
        }
        if self.git_dir is not None:
            made["GIT_DIR"] = str(self.git_dir)
        if self.work_tree is not None:
            made["GIT_WORK_TREE"] = str(self.work_tree)
        if self.index is not None:
            made["GIT_INDEX_FILE"] = str(self.index)
        made.update(self.extra)
        return made

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return the argument list; our settings stand last and so win over a repository's."""
        pairs = {**SETTINGS, **self.further}.items()
        settings = [part for key, value in pairs for part in ("-c", f"{key}={value}")]
        return ["git", "--no-pager", *settings, *arguments]

    def attempt(
        self,
        *arguments: str,
        stdin: bytes | int = b"",
        cwd: Path | None = None,
        timeout_s: float = 600.0,
    ) -> Finished:
        """Run git and return what it came to, whatever its exit code.

        `stdin` is what it reads, or the descriptor of a file that it reads from there on.
        Raises Unavailable without a git command, on a full disk or where it was killed, WorkFailed
        when the time is over or the folder to run in is gone, CancelledError where an interrupt
        ended it.
        """
        return self._attempted(arguments, stdin=stdin, cwd=cwd, timeout_s=timeout_s)

    def _attempted(
        self,
        arguments: Sequence[str],
        *,
        stdin: bytes | int = b"",
        stdout: int = subprocess.PIPE,
        cwd: Path | None = None,
        timeout_s: float = 600.0,
    ) -> Finished:
        try:
            done = completed(
                self.command(arguments),
                stdin=stdin,
                stdout=stdout,
                timeout_s=timeout_s,
                patience_s=WRITING_S if self.held else READING_S,
                cwd=cwd or self.home,
                env=self.environment(),
                umask=-1 if self.owner else 0o022,
                user=self.owner[0] if self.owner else None,
                group=self.owner[1] if self.owner else None,
                extra_groups=[] if self.owner else None,
                pass_fds=self.held,
            )
        except FileNotFoundError as error:
            if error.filename != "git":
                raise WorkFailed(f"{error.filename} is gone", hint="bring it back") from error
            raise no_git() from error
        except subprocess.TimeoutExpired as error:
            raise WorkFailed(
                f"git {arguments[0]} took longer than {timeout_s:.0f} s",
                hint="look for a slow disk or network file system",
                details={"arguments": list(arguments)},
            ) from error
        said = _named(done.stderr.decode("utf-8", "replace"), self.held)
        if done.returncode != 0 and (death(done.returncode, said) or _is_refused_by_disk(said)):
            raise failure(arguments, done.returncode, said)
        return Finished(code=done.returncode, out=done.stdout, err=said)

    def streamed(self, *arguments: str) -> Iterator[bytes]:
        """Run git and yield its standard output, in pieces of a MiB at most, as it comes.

        Raises Unavailable without a git command, WorkFailed with git's words where it fails; what
        was yielded before is not whole then.
        """
        with tempfile.TemporaryFile() as said:
            try:
                process = subprocess.Popen(
                    self.command(arguments),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=said,
                    cwd=self.home,
                    env=self.environment(),
                    process_group=0,  # Ctrl-C is for us
                )
            except FileNotFoundError as error:
                if error.filename != "git":
                    raise WorkFailed(f"{error.filename} is gone", hint="bring it back") from error
                raise no_git() from error
            out = cast("IO[bytes]", process.stdout)  # it was asked for
            try:
                while piece := out.read(PIECE_BYTES):
                    yield piece
                code = process.wait()
            finally:
                out.close()
                process.kill()
                process.wait()
            said.seek(0)
            if code != 0:
                raise failure(arguments, code, said.read(SAID_BYTES).decode("utf-8", "replace"))

    def run(
        self,
        *arguments: str,
        stdin: bytes | int = b"",
        cwd: Path | None = None,
        timeout_s: float = 600.0,
    ) -> bytes:
        """Run git and return its standard output. Raises WorkFailed with its words otherwise."""
        done = self.attempt(*arguments, stdin=stdin, cwd=cwd, timeout_s=timeout_s)
        if done.code != 0:
            raise failure(arguments, done.code, done.err)
        return done.out

    @contextlib.contextmanager
    def output(self, *arguments: str) -> Iterator[IO[bytes]]:
        """Run git and yield a file of its standard output, which none holds in memory.

        Raises as `run`.
        """
        with tempfile.TemporaryFile(dir=self.home.parent) as file:
            done = self._attempted(arguments, stdout=file.fileno())
            if done.code != 0:
                raise failure(arguments, done.code, done.err)
            file.seek(0)
            yield file


def no_git() -> Unavailable:
    """Return the refusal of a machine without git."""
    return Unavailable("there is no git command", hint="apt install git")


def failure(arguments: Sequence[str], code: int, err: str) -> PatchyardError:
    """Return the error for a git that ended with `code`: Unavailable without disk or memory."""
    said = err.strip()
    lines = [line for line in said.splitlines() if line.startswith("fatal:")] or said.splitlines()
    message = f"git {arguments[0]} failed: {lines[0] if lines else f'exit code {code}'}"
    details = {"arguments": list(arguments), "exit_code": code, "stderr": said[-4000:]}
    if words := death(code, said):
        return Unavailable(f"git {arguments[0]} {words}", hint=FREE_MEMORY, details=details)
    if _is_refused_by_disk(said):
        cause = "" if is_full_disk(message) else ": No space left on device, or a failing disk"
        return Unavailable(message + cause, hint=FREE_SPACE, details=details)
    return WorkFailed(message, hint="the details hold git's own words", details=details)


def _is_refused_by_disk(said: str) -> bool:
    """Whether a git that failed says that its disk took no more."""
    return UNWRITTEN in said or is_full_disk(said)


def by_descriptor(folder: int) -> Path:
    """Return a path of an open folder, for this process and those that inherit the descriptor."""
    return Path(f"/proc/self/fd/{folder}")


def _named(said: str, held: Sequence[int]) -> str:
    """Put the names of folders in the place of their descriptors."""
    for each in held:
        path = by_descriptor(each)
        said = said.replace(f"{path}/", f"{path.readlink()}/")
    return said


def text(output: bytes) -> str:
    """Return one line of output as text, paths exact."""
    return os.fsdecode(output).rstrip("\n")


__all__ = ["SETTINGS", "STREAMING", "Finished", "Git", "by_descriptor", "failure", "no_git", "text"]
