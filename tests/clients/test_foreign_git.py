import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from laboratory import git
from patchyard.clients.foreign_git import ITS_OWN, ForeignGit, stand_in
from patchyard.clients.git import Git, text
from patchyard.domain.errors import UsageError, WorkFailed


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of a repository."""

    git_dir: Path
    common_dir: Path
    object_format: str = "sha1"
    settings: Mapping[str, str] = field(default_factory=dict)


def repository(folder: Path, **settings: str) -> Known:
    """Make a repository of one commit."""
    git(folder, "init", "-q", "-b", "main", "repo")
    (folder / "repo/f").write_text("f\n")
    git(folder / "repo", "add", "f")
    git(folder / "repo", "commit", "-q", "-m", "f")
    place = folder / "repo/.git"
    return Known(git_dir=place, common_dir=place, settings=settings)


def test_a_command_that_its_table_has_not_is_refused(tmp_path: Path) -> None:
    reading = ForeignGit(home=tmp_path, config=tmp_path / "none", known=ITS_OWN)

    with pytest.raises(WorkFailed, match="git status is not among the commands"):
        reading.run("status")


def test_a_stand_in_has_no_setting_of_the_repository(tmp_path: Path) -> None:
    known = repository(tmp_path)
    trace = tmp_path / "ran"
    hook = known.git_dir / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n: > {trace}\n")
    hook.chmod(0o755)
    git(tmp_path / "repo", "config", "core.abbrev", "11")
    head = git(tmp_path / "repo", "rev-parse", "HEAD").strip()

    with stand_in(known, tmp_path / "home") as confined:
        assert text(confined.run("rev-parse", "--short", "HEAD")) == head[:7]
        confined.run("update-ref", "refs/heads/deep/er", head)
    assert not trace.exists()
    assert git(tmp_path / "repo", "rev-parse", "--short", "deep/er") == f"{head[:11]}\n"
    git(tmp_path / "repo", "update-ref", "refs/heads/other", head)
    assert trace.exists(), "the hook does not even run where git is called bare"
    assert not list((tmp_path / "home/scratch").iterdir())


def test_packed_refs_are_rewritten_where_the_repository_has_them(tmp_path: Path) -> None:
    known = repository(tmp_path)
    repo = tmp_path / "repo"
    git(repo, "branch", "side")
    git(repo, "pack-refs", "--all")

    with stand_in(known, tmp_path / "home") as confined:
        confined.run("update-ref", "-d", "refs/heads/side")

    assert git(repo, "for-each-ref", "--format=%(refname)") == "refs/heads/main\n"
    assert not (known.git_dir / "packed-refs").is_symlink()


def test_who_keeps_no_logs_of_refs_gets_none(tmp_path: Path) -> None:
    known = repository(tmp_path)
    repo = tmp_path / "repo"
    head = git(repo, "rev-parse", "HEAD").strip()
    subprocess.run(["rm", "-r", str(known.git_dir / "logs")], check=True)

    with stand_in(known, tmp_path / "home") as confined:
        confined.run("update-ref", "-m", "why", "refs/heads/side", head)

    assert git(repo, "rev-parse", "side").strip() == head
    assert not (known.git_dir / "logs").exists()


@pytest.mark.parametrize("value", ["group", "0660", "x\n[core]\n\tpager = y"])
def test_only_a_plain_word_says_for_whom_files_are_written(tmp_path: Path, value: str) -> None:
    known = repository(tmp_path, **{"core.sharedrepository": value})

    with stand_in(known, tmp_path / "home") as confined:
        written = (confined.home / "config").read_text()

    assert ("sharedRepository" in written) is value.isalnum()
    assert "pager" not in written


def test_references_of_another_kind_are_refused_by_name(tmp_path: Path) -> None:
    known = repository(tmp_path, **{"extensions.refstorage": "odd"})

    with (
        pytest.raises(UsageError, match="keeps its references in 'odd'"),
        stand_in(known, tmp_path / "home"),
    ):
        pass


def test_how_a_repository_is_stored_is_said_to_git(tmp_path: Path) -> None:
    known = Known(
        git_dir=tmp_path,
        common_dir=tmp_path,
        object_format="sha256",
        settings={"extensions.refstorage": "reftable"},
    )

    with stand_in(known, tmp_path / "home") as confined:
        place = str(confined.home / "config")
        said = git(tmp_path, "config", "--file", place, "--list").splitlines()

    assert said == [
        "core.repositoryformatversion=1",
        "extensions.objectformat=sha256",
        "extensions.refstorage=reftable",
    ]


def test_no_protocol_is_open_whatever_a_repository_allows(tmp_path: Path) -> None:
    repository(tmp_path)
    repo = tmp_path / "repo"
    trace = tmp_path / "ran"
    for key in ("allow", "ext.allow", "file.allow"):
        git(repo, "config", f"protocol.{key}", "always")
    git(repo, "config", "remote.trap.url", f"ext::sh -c touch% {trace}")
    plain = Git(home=repo, config=Path(os.devnull), extra={"GIT_SSH_COMMAND": f"touch {trace};"})

    for url in ("trap", "ssh://x.invalid/x", f"file://{repo}", "git://127.0.0.1:1/x"):
        done = plain.attempt("ls-remote", url)
        assert done.code != 0
        assert "not allowed" in done.err
    assert not trace.exists()
