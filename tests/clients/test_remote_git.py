"""Git that talks to servers of others: bounded, and closed to all but what we configured."""

import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from forges import upstream
from patchyard.clients.git import Finished
from patchyard.clients.process import all_processes, marked
from patchyard.clients.remote_git import RemoteGit, credential_for
from patchyard.clients.remote_trouble import trouble
from patchyard.domain.errors import Unavailable, UsageError
from patchyard.domain.remotes import remote_of

ROOM = 1024**3


def remote_git(folder: Path, url: str, **further: Any) -> RemoteGit:
    (folder / "empty").mkdir(exist_ok=True)
    (folder / "gitconfig").touch()
    told = {"most_bytes": ROOM, "environ": {}, **further}
    return RemoteGit(
        home=folder / "empty",
        config=folder / "gitconfig",
        remote=remote_of(url),
        **told,
    )


def test_a_server_that_says_nothing_is_given_up_with_all_that_asked_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # it takes connections, and no more
        port = server.getsockname()[1]
        git = remote_git(
            tmp_path, f"https://localhost:{port}/shop.git", silent_s=1.0, mark=f"MARK={tmp_path}"
        )
        with pytest.raises(Unavailable, match="localhost has sent nothing for 1 s"):
            git.attempt("ls-remote", "--", git.remote.source)
    assert marked(f"MARK={tmp_path}", all_processes()) == []


def test_a_server_that_never_comes_to_an_end_is_given_up(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    script = "while :; do echo 'remote: still at it' >&2; sleep 0.05; done"
    (home / ".ssh/config").write_text(f'Host yonder\n  ProxyCommand sh -c "{script}"\n')
    git = remote_git(tmp_path, "ssh://yonder/shop.git", whole_s=2.0, environ={"HOME": str(home)})
    with pytest.raises(Unavailable, match="yonder has not sent all of the repository in 2 s"):
        git.attempt("ls-remote", "--", git.remote.source)


def test_an_answer_larger_than_any_is_not_held(tmp_path: Path) -> None:
    work = upstream(tmp_path / "shop")
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=work, text=True).strip()
    lines = "".join(f"{head} refs/heads/{number:0100}\n" for number in range(40_000))
    (work / ".git/packed-refs").write_text(f"# pack-refs with: peeled fully-peeled sorted\n{lines}")
    git = remote_git(tmp_path, f"file://{work}")
    with pytest.raises(Unavailable, match="more than 4 MiB where a line was asked for"):
        git.attempt("ls-remote", "--", git.remote.source)


def test_a_repository_larger_than_there_is_room_for_is_refused(tmp_path: Path) -> None:
    work = upstream(tmp_path / "shop")
    (work / "large").write_bytes(os.urandom(2_000_000))
    for words in (
        ["add", "-A"],
        ["-c", "user.name=T", "-c", "user.email=t@x", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *words], cwd=work, check=True)
    git = remote_git(tmp_path, f"file://{work}", most_bytes=500_000)
    words = ["clone", "--no-local", "--no-checkout", "--", git.remote.source, str(tmp_path / "new")]
    done = git.attempt(*words)
    error = trouble(git.remote, done, verb="clone", most_bytes=500_000)
    assert done.code != 0
    assert "sends more than the 500,000 bytes there is room for" in error.message, done.err


def test_limits_that_are_lower_already_stand_in_no_way(tmp_path: Path) -> None:
    work = upstream(tmp_path / "shop")
    git = remote_git(tmp_path, f"file://{work}")
    words = git.command(["ls-remote", "--", str(work)])
    bounded = ["/bin/sh", "-c", 'ulimit -f 2000; ulimit -d 2000000; exec "$@"', "sh", *words]
    said = subprocess.check_output(bounded, env=git.environment(), cwd=tmp_path, text=True)
    assert "refs/heads/main" in said


@pytest.mark.parametrize(
    "url", ["ext::sh -c 'touch ran'", "http://localhost/x", "git://localhost/x"]
)
def test_no_other_protocol_is_spoken_whoever_names_it(tmp_path: Path, url: str) -> None:
    git = remote_git(tmp_path, "https://localhost/shop.git")
    done = git.attempt("ls-remote", "--", url, cwd=tmp_path)
    assert done.code != 0
    assert "not allowed" in done.err
    assert not (tmp_path / "ran").exists()


def test_a_credential_stands_in_no_command_line_and_no_other_environment(tmp_path: Path) -> None:
    remote = remote_of("https://forge.example/ada/shop.git")
    environ = {"TOKEN": "t0ken-0123456789", "PAIR": "ada:s3cret-0123"}
    found = credential_for(remote, ["TOKEN@forge.example"], environ)
    git = remote_git(tmp_path, remote.url, credential=found)
    assert "t0ken" not in repr(git)
    assert "t0ken" not in " ".join(git.command(["fetch"]))
    assert git.environment()["GIT_CONFIG_KEY_0"] == "http.https://forge.example:443/.extraHeader"
    others = ["TOKEN@forge.example:8443", "TOKEN@other.example", "TOKEN@http://forge.example"]
    assert credential_for(remote, [*others, "TOKEN@forge.example/other"], environ) is None
    assert (
        credential_for(remote_of("ssh://forge.example/a"), ["TOKEN@forge.example"], environ) is None
    )
    narrow = ["TOKEN@forge.example", "basic:PAIR@forge.example/ada", "bearer:TOKEN@forge.example/a"]
    chosen = credential_for(remote, narrow, environ)
    assert chosen is not None
    assert (chosen.name, chosen.header) == ("PAIR", "Authorization: Basic YWRhOnMzY3JldC0wMTIz")
    bearer = credential_for(remote, ["bearer:TOKEN@forge.example"], environ)
    assert bearer is not None
    assert bearer.header == "Authorization: Bearer t0ken-0123456789"


@pytest.mark.parametrize("value", ["", "two\nlines-0123", "tab\t-0123456", "ü-0123456789"])
def test_a_credential_that_no_header_can_hold_is_refused_unsaid(value: str) -> None:
    remote = remote_of("https://forge.example/shop.git")
    with pytest.raises(UsageError) as caught:
        credential_for(remote, ["TOKEN@forge.example"], {"TOKEN": value})
    assert "0123" not in f"{caught.value.message}{caught.value.hint}"


UNKNOWN, REFUSED = "Host key verification failed.", "fatal: Authentication failed"
NO_SUCH = "fatal: '/a.git' does not appear to be a git repository"


@pytest.mark.parametrize(
    ("url", "said", "cure"),
    [
        ("https://forge.example/a.git", REFUSED, "CLONE_SECRETS=NAME@forge.example, where"),
        ("https://forge.example:8443/a.git", REFUSED, "CLONE_SECRETS=NAME@forge.example:8443,"),
        ("https://[::1]:8443/a.git", REFUSED, "CLONE_SECRETS=NAME@[::1]:8443,"),
        ("ssh://forge.example/a.git", UNKNOWN, "`ssh forge.example` shows it"),
        ("ssh://forge.example:2222/a.git", UNKNOWN, "`ssh -p 2222 forge.example` shows it"),
        ("ssh://[::1]:2222/a.git", UNKNOWN, "`ssh -p 2222 ::1` shows it"),
        ("ssh://forge.example/a.git", NO_SUCH, "whether your key may read it"),
        ("https://forge.example/a.git", NO_SUCH, "PATCHYARD_CLONE_SECRETS"),
    ],
)
def test_the_cure_is_for_that_server_and_its_port(url: str, said: str, cure: str) -> None:
    done = Finished(code=128, out=b"", err=said)
    error = trouble(remote_of(url), done, verb="ls-remote", most_bytes=ROOM)
    assert cure in (error.hint or "")


def test_the_rule_that_a_refusal_names_counts_for_that_server() -> None:
    remote = remote_of("https://forge.example:8443/a.git")
    done = Finished(code=128, out=b"", err=REFUSED)
    hint = trouble(remote, done, verb="ls-remote", most_bytes=ROOM).hint or ""
    rule = hint.partition("PATCHYARD_CLONE_SECRETS=")[2].partition(",")[0]
    found = credential_for(remote, [rule], {"NAME": "t0ken-0123456789"})
    assert found is not None


def test_a_variable_that_is_empty_names_no_authority(tmp_path: Path) -> None:
    address = "https://forge.example/a.git"
    empty = {"GIT_SSL_CAINFO": "", "SSL_CERT_FILE": "", "HTTPS_PROXY": ""}
    git = remote_git(tmp_path, address, environ=empty)
    assert not empty.keys() & git.environment().keys()
    git = remote_git(tmp_path, address, environ={**empty, "SSL_CERT_FILE": "/ca.pem"})
    assert git.environment()["GIT_SSL_CAINFO"] == "/ca.pem"
