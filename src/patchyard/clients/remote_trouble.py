"""What a git says that could not clone or fetch, as one sentence with its cure. Pure but for words.

Git has no codes for these: the words are those of git 2.30 to 2.50 in English, of libcurl and of
OpenSSH. What none of them fits is told as git said it.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from patchyard.clients.deaths import FREE_MEMORY, death
from patchyard.clients.git import Finished, failure
from patchyard.domain.errors import PatchyardError, Unavailable, WorkFailed
from patchyard.domain.machine import is_full_disk
from patchyard.domain.remotes import Remote

Words = tuple[str, str]  # what is wrong, and the cure

TOO_LARGE = re.compile(r"File too large|exceeds maximum allowed size", re.IGNORECASE)
NO_HEAD = re.compile(r"couldn't find remote ref HEAD\b", re.IGNORECASE)


def _credential(remote: Remote) -> Words:
    cure = (
        f"give a token that may read it: PATCHYARD_CLONE_SECRETS=NAME@{remote.server}, where the"
        " variable NAME holds it"
    )
    return f"{remote.host} does not give that repository to who asks from here", cure


def _missing(remote: Remote) -> Words:
    if not remote.host:
        cure = "look at the path, and whether this user may read it"
        return f"there is no repository {remote.path} on this machine", cure
    cure = "look at the address, and whether your key may read it there"
    if remote.scheme == "https":
        cure = "look at the address; a private one needs a credential: PATCHYARD_CLONE_SECRETS"
    return f"there is no repository {remote.path} at {remote.host}, or none that is shown", cure


def _unknown_host_key(remote: Remote) -> Words:
    port = "" if remote.has_usual_port else f" -p {remote.port}"
    command = f"ssh{port} {remote.host}"
    return (
        f"the key of {remote.host} is not known here, or is another than before",
        f"`{command}` shows it; once you have taken it into ~/.ssh/known_hosts it counts",
    )


def _no_key(remote: Remote) -> Words:
    return (
        f"{remote.host} takes none of the keys that ssh has here",
        "load the key into ssh-agent, or name it in ~/.ssh/config (IdentityFile)",
    )


def _redirected(remote: Remote) -> Words:
    return (
        f"{remote.host} says that the repository lies elsewhere, and no credential goes there",
        "name the address that a browser ends at; see whether the credential is for that host",
    )


def _certificate(remote: Remote) -> Words:
    return (
        f"the certificate of {remote.host} is not one that is trusted here",
        "name the file with its authority: GIT_SSL_CAINFO, or SSL_CERT_FILE where that is not set",
    )


def _away(remote: Remote) -> Words:
    return (
        f"{remote.host or remote.path} cannot be reached",
        "see whether it is up, and how it is reached from here (HTTPS_PROXY, ~/.ssh/config)",
    )


def _forbidden(remote: Remote) -> Words:
    return (
        f"{remote.host} leads to a protocol that is not taken",
        "name an address by https or ssh that leads nowhere else",
    )


KNOWN: Mapping[Callable[[Remote], Words], Sequence[str]] = {
    _unknown_host_key: (
        r"host key verification failed",
        r"host key is known",
        r"identification has changed",
    ),
    _no_key: (r"permission denied \(",),
    _redirected: (
        r"unable to update url base",
        r"returned error: 30[0-9]",
        r"too many redirects",
        r"redirects followed",
    ),
    _credential: (
        r"could not read (username|password)",
        r"authentication failed",
        r"returned error: 40[13]",
    ),
    _missing: (
        r"returned error: 404",
        r"repository .* not found",
        r"not appear to be a git repository",
        r"does not exist",
    ),
    _certificate: (r"certificate", r"ssl peer"),
    _forbidden: (r"protocol .* not (allowed|supported|disabled)", r"transport '.*' not allowed"),
    _away: (
        r"could not resolve",
        r"(failed|couldn't|unable) to connect",
        r"couldn't connect",
        r"connection (refused|reset|closed|timed out)",
        r"timed out",
        r"timeout",
        r"operation too slow",
        r"no route to host",
        r"empty reply",
        r"network is unreachable",
        r"returned error: 5\d\d",
    ),
}
"""Looked for in this order, in any case of letters."""
WITH_CAUSE = (_away, _certificate)  # git's own words say more
OF_CREDENTIALS = (_credential, _missing)
CAUSES = ("fatal:", "error:", "ssh:")  # begin lines that say why


def trouble(
    remote: Remote,
    done: Finished,
    *,
    verb: str,
    most_bytes: int,
    kept: str = "",
    token_cure: str = "",
) -> PatchyardError:
    """Return the error for a git that ended with a code other than 0.

    `kept` is where a clone of earlier lies that could be used as it is, empty for none.
    `token_cure` says how a server is told who asks, empty: as commands take it.
    """
    said, where = done.err.strip(), remote.host or remote.path
    details = {"verb": verb, "exit_code": done.code, "stderr": said[-4000:]}
    if TOO_LARGE.search(said):
        return Unavailable(
            f"{where} sends more than the {most_bytes:,} bytes there is room for",
            hint="free some room on the disk of the home",
            details=details,
        )
    if is_full_disk(said):
        return failure([verb], done.code, said)
    if ended := death(done.code, said):
        return Unavailable(f"git {verb} {ended}", hint=FREE_MEMORY, details=details)
    found = (told for told, words in KNOWN.items() if any(_says(said, each) for each in words))
    known = next(found, None)
    lines = [line for line in said.splitlines() if line.startswith(CAUSES)]
    why = lines[0][:300] if lines else f"exit code {done.code}"
    if known is None:
        hint = "the details hold git's own words"
        return WorkFailed(f"git {verb} from {where} failed: {why}", hint=hint, details=details)
    what, cure = known(remote)
    if known in OF_CREDENTIALS and remote.scheme == "https":
        cure = token_cure or cure
    if known in WITH_CAUSE:
        what += f" ({why})"
    if kept:
        cure += f"; the clone of earlier lies in {kept}: `--repo` with that path takes it as it is"
    return Unavailable(what, hint=cure, details=details)


def _says(said: str, words: str) -> bool:
    return re.search(words, said, re.IGNORECASE) is not None


__all__ = ["CAUSES", "KNOWN", "NO_HEAD", "OF_CREDENTIALS", "TOO_LARGE", "WITH_CAUSE", "trouble"]
