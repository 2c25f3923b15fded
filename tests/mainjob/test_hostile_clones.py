"""A repository may hold anything: nothing of it runs on this machine, and nothing hangs."""

import os

import pytest

from mainjob.driver import Answer, Desk, bits, git, shell, write
from mainjob.traps import ODD_NAMES, SHADOWS, git_traps, odd_files, odd_names, submodules

pytestmark = pytest.mark.service("bubblewrap")


def whole_job(desk: Desk, *replies: dict[str, object], in_: str = "") -> Answer:
    """Plan, execute, prove, show, apply and take back."""
    gate = ["--validate", "test -e made"]
    said = desk.run(write("made", "made\n"), *replies, options=gate, in_=in_)
    assert said.code == 0, said.message
    for words in (["diff"], ["status"], ["apply"], ["unapply"]):
        answer = desk.agents("plan", *words)
        assert answer.code == 0, answer.message
    return said


@pytest.mark.parametrize("kind", ["process", "host"])
def test_no_filter_hook_or_setting_of_git_ever_runs(desk: Desk, kind: str) -> None:
    git_traps(desk)
    (desk.repo / "a.txt").write_text("changed\n")
    (desk.repo / "new.y").write_text("new\n")

    said = whole_job(desk, shell("git log --oneline; cat pointer.lfs"), in_=kind)

    assert desk.ran == []
    assert said.changed == {"made": "added"}
    answer = desk.agents("plan", "apply", "--to", "patch", "--name", str(desk.folder / "p"))
    assert answer.code == 0, answer.message
    desk.agents("plan", "unapply")
    assert desk.agents("plan", "apply", "--to", "branch").code in {0, 3}
    assert desk.ran == []
    git(desk.repo, "status", check=False)
    git(desk.repo / "vendor/nested", "add", ".", check=False)
    assert desk.ran, "the traps do not even work where git is called bare"


def test_nor_for_an_ordinary_user(plain_desk: Desk) -> None:
    git_traps(plain_desk)

    said = plain_desk.run(write("made", "made\n"))

    assert said.code == 0, said.message
    assert plain_desk.ran == []


def test_submodules_are_links_whatever_their_addresses_say(desk: Desk) -> None:
    submodules(desk)

    said = whole_job(desk, shell('test -d deep -a -z "$(ls -A deep)" && cp .gitmodules copy'))

    assert set(said.changed) == {"made", "copy"}
    assert desk.ran == []


@pytest.mark.parametrize("kind", ["process", "host"])
def test_devices_fifos_sockets_and_links_are_neither_opened_nor_followed(
    desk: Desk, kind: str
) -> None:
    odd_files(desk)
    before = bits(desk.repo)

    said = desk.run(
        shell("test ! -e fifo -a ! -e sock -a ! -e null && cat hard > made && ls -la setuid home"),
        shell("test ! -u setuid -a -L passwd -a -L folder && echo more >> hard"),
        options=["--validate", "test -e made"],
        in_=kind,
    )

    assert said.code == 0, said.message
    assert said.changed == {"hard": "modified", "made": "added"}
    assert (desk.folder / "outside").read_text() == "outside\n"
    assert bits(desk.repo) == before


def test_names_are_only_names(desk: Desk) -> None:
    odd_names(desk)
    edit = 'for f in ./*; do test -f "$f" && echo more >> "$f"; done; true'

    said = desk.run(shell(edit))

    assert said.code == 0, said.message
    assert b"\\udc" not in said.out
    assert {os.fsencode(path) for path in said.changed} == {*ODD_NAMES, b"a.txt"}
    for words in (["diff"], ["status"], ["apply"]):
        answer = desk.agents("plan", *words, is_json=False)
        assert answer.code == 0, answer.err
        if words != ["diff"]:
            assert b"\x1b[31m" not in answer.out + answer.err.encode()
    for number, name in enumerate(ODD_NAMES):
        place = desk.repo / os.fsdecode(name)
        assert place.read_bytes() == b"content of %d\nmore\n" % number
    assert desk.agents("plan", "unapply").code == 0
    git(desk.repo, "diff", "--exit-code", "HEAD", "--")
    assert not list(desk.folder.rglob("pwned*"))


@pytest.mark.parametrize("kind", ["process", "host"])
def test_a_module_that_shadows_the_library_is_not_imported_by_our_side(
    desk: Desk, kind: str
) -> None:
    for name in SHADOWS:
        (desk.repo / f"{name}.py").write_text(
            f"open('/tmp/imported-{name}', 'w')\nopen('imported-{name}', 'w')\n"
            f"open('{desk.canary}/{name}', 'w')\n"
        )

    said = whole_job(desk, shell("ls imported-* /tmp/imported-* || echo none"), in_=kind)

    assert said.changed == {"made": "added"}
    assert desk.ran == []


def test_a_huge_sparse_file_is_taken_whole(desk: Desk) -> None:
    with (desk.repo / "huge").open("wb") as file:
        file.truncate(64 * 1024 * 1024)

    said = desk.run(shell("test $(stat -c %s huge) = 67108864"), shell("echo x >> huge; rm huge"))

    assert said.code == 0, said.message
    assert said.changed == {"huge": "deleted"}
    assert (desk.repo / "huge").stat().st_blocks == 0


def test_nor_of_the_users_own_configuration(desk: Desk) -> None:
    git_traps(desk, desk.home)

    whole_job(desk, shell("git status --porcelain; git log -1"))

    assert desk.ran == []


def test_a_git_file_that_names_an_armed_repository_starts_nothing_of_it(desk: Desk) -> None:
    git_traps(desk)
    armed = desk.folder / "armed"
    (desk.repo / ".git").rename(armed)
    (desk.repo / ".git").write_text(f"gitdir: {armed}\n")
    git(armed, "config", "--file", "config", "core.bare", "false")

    said = whole_job(desk)

    assert said.changed == {"made": "added"}
    assert desk.ran == []
