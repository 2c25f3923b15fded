"""Whose a folder is under a root engine, and when that is not to be relied on."""

import os
from pathlib import Path

import pytest

from patchyard.clients import ownership
from patchyard.clients.identity import AgentIdentity
from patchyard.clients.ownership import owner_of, require_owner
from patchyard.domain.errors import EnvironmentUnavailable

AGENT = AgentIdentity(uid=60_950, gid=60_950, is_switched=True)
OTHER = 60_951
ROOT = pytest.mark.service("root")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = tmp_path / "top"
    (made / "work").mkdir(parents=True)
    for place in (made, made / "work"):
        place.chmod(0o755)
    return made


def uid_in(folder: Path) -> int:
    return owner_of(str(folder), AGENT).uid


def test_an_engine_that_is_no_root_is_always_itself(top: Path) -> None:
    own = AgentIdentity(uid=1000, gid=1000, is_switched=False)
    assert owner_of(str(top / "nowhere"), own) == own


@ROOT
def test_it_is_the_owners_with_the_owners_group(top: Path) -> None:
    os.chown(top / "work", OTHER, 7)
    found = owner_of(str(top / "work"), AGENT)
    assert (found.uid, found.gid, found.is_switched) == (OTHER, 7, True)
    os.chown(top / "work", OTHER, 0)
    assert owner_of(str(top / "work"), AGENT).gid == OTHER
    os.chown(top / "work", 0, 7)
    assert owner_of(str(top / "work"), AGENT).gid == 0


@ROOT
@pytest.mark.parametrize(
    ("mode", "group", "uid"),
    [
        (0o755, 0, 0),
        (0o777, 0, AGENT.uid),
        (0o1777, 0, 0),
        (0o775, 0, 0),
        (0o775, 7, AGENT.uid),
        (0o1775, 7, 0),
    ],
)
def test_a_way_that_others_can_write_to_makes_it_the_agents(
    top: Path, mode: int, group: int, uid: int
) -> None:
    os.chown(top, 0, group)
    top.chmod(mode)
    assert uid_in(top / "work") == uid


@ROOT
def test_a_way_through_a_folder_of_another_makes_it_the_agents(top: Path) -> None:
    os.chown(top, OTHER, OTHER)
    assert uid_in(top / "work") == AGENT.uid
    os.chown(top / "work", OTHER, OTHER)
    assert uid_in(top / "work") == OTHER


@ROOT
def test_links_on_the_way_are_looked_at_too(top: Path, tmp_path: Path) -> None:
    (tmp_path / "near").symlink_to("top/../top/work")
    (tmp_path / "far").symlink_to(top)
    assert (uid_in(tmp_path / "near"), uid_in(tmp_path / "far/work")) == (0, 0)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "link").symlink_to(top / "work")
    os.chown(theirs, OTHER, OTHER)
    assert uid_in(theirs / "link") == AGENT.uid
    os.chown(theirs, 0, 0)
    theirs.chmod(0o1777)
    os.chown(theirs / "link", OTHER, OTHER, follow_symlinks=False)
    assert uid_in(theirs / "link") == AGENT.uid


@ROOT
def test_without_protected_hard_links_it_is_the_agents(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "protected_hardlinks"
    monkeypatch.setattr(ownership, "HARD_LINKS", said)
    assert uid_in(top / "work") == AGENT.uid
    for text, uid in (("0\n", AGENT.uid), ("1\n", 0)):
        said.write_text(text)
        assert uid_in(top / "work") == uid


@ROOT
def test_who_needs_the_owner_is_told_where_there_is_none_to_take(top: Path) -> None:
    assert require_owner(str(top / "work"), AGENT).uid == 0
    with pytest.raises(EnvironmentUnavailable, match="No such file"):
        require_owner(str(top / "none"), AGENT)
    top.chmod(0o777)
    with pytest.raises(EnvironmentUnavailable, match="put another folder there"):
        require_owner(str(top / "work"), AGENT)
