"""What cannot be done is refused: the place and the cure are named, and nothing is lost."""

import os
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mainjob.driver import LONGEST_S, Answer, Desk, Waiting, bits, git, shell, write

pytestmark = pytest.mark.service("bubblewrap")


def no_repository(desk: Desk) -> str:
    shutil.rmtree(desk.repo / ".git")
    return "git init"


def bare(desk: Desk) -> str:
    shutil.rmtree(desk.repo)
    git(desk.folder, "init", "-q", "--bare", "repo")
    return "git clone"


def empty(desk: Desk) -> str:
    shutil.rmtree(desk.repo)
    git(desk.folder, "init", "-q", "repo")
    return "commit"


def damaged(desk: Desk) -> str:
    for place in (desk.repo / ".git/objects").glob("??/*"):
        place.unlink()
    return "git fsck"


def a_dangling_git_file(desk: Desk) -> str:
    shutil.rmtree(desk.repo / ".git")
    (desk.repo / ".git").write_text(f"gitdir: {desk.folder}/gone\n")
    return "git"


def a_binary_git_file(desk: Desk) -> str:
    shutil.rmtree(desk.repo / ".git")
    (desk.repo / ".git").write_bytes(os.urandom(64))
    return "git"


def a_fifo_for_git(desk: Desk) -> str:
    shutil.rmtree(desk.repo / ".git")
    os.mkfifo(desk.repo / ".git")
    return "git"


def a_worktree_elsewhere(desk: Desk) -> str:
    git(desk.repo, "config", "core.worktree", str(desk.folder))
    return "core.worktree"


def broken_configuration(desk: Desk) -> str:
    (desk.repo / ".git/config").write_text("[core\nbroken")
    return "config"


def unfinished_merge(desk: Desk) -> str:
    git(desk.repo, "switch", "-q", "-c", "side")
    (desk.repo / "a.txt").write_text("side\n")
    git(desk.repo, "commit", "-q", "-am", "side")
    git(desk.repo, "switch", "-q", "main")
    (desk.repo / "a.txt").write_text("main\n")
    git(desk.repo, "commit", "-q", "-am", "main")
    git(desk.repo, "merge", "side", check=False)
    return "git merge --abort"


REFUSED: dict[str, Callable[[Desk], str]] = {
    each.__name__.replace("_", " "): each
    for each in (
        *(no_repository, bare, empty, damaged, a_dangling_git_file, a_binary_git_file),
        *(a_fifo_for_git, a_worktree_elsewhere, broken_configuration, unfinished_merge),
    )
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_place_that_cannot_be_worked_on_is_named_with_its_cure(desk: Desk, kind: str) -> None:
    cure = REFUSED[kind](desk)
    before = bits(desk.repo)

    said = desk.run(write("x", "x\n"))

    assert said.code == 2, said.message
    assert str(desk.repo) in said.message or kind == "unfinished merge"
    assert cure in said.message
    assert bits(desk.repo) == before


def test_an_unreadable_file_is_named(plain_desk: Desk) -> None:
    if plain_desk.user is None:
        (plain_desk.repo / "closed").touch(0o000)
    else:
        (plain_desk.repo / "closed").touch(0o600)

    said = plain_desk.run(write("x", "x\n"))

    assert said.code == 2, said.message
    assert str(plain_desk.repo / "closed") in said.message
    assert ".gitignore" in said.message


NAMES = {
    "a destination": ["run", "x", "--apply", "nowhere"],
    "a kind": ["run", "x", "--in", "prozess"],
    "an agent": ["run", "x", "--agent", "modell"],
    "a provider": ["run", "x", "--model", "olama:x"],
    "a plan": ["plan", "status", "01AAAAAAAAAAAAAAAAAAAAAAAA"],
    "no plan id": ["plan", "status", "what?"],
    "a commit": ["run", "x", "--ref", "no-such-branch"],
    "a folder": ["run", "x", "--repo", "no-such-folder"],
    "a command": ["rum", "x"],
    "an option": ["run", "x", "--valdate", "true"],
    "a duration": ["run", "x", "--timeout", "soon"],
    "a script": ["run", "x", "--model", "scripted:no-such-file"],
    "a file with the task": ["run", "@no-such-file"],
    "a mount of the whole machine": ["run", "x", "--mount", "/"],
}


NO_PLAN = {
    "an agent": ["--agent", "zz"],
    "no model's name": ["--model", "foo"],
    "a provider": ["--model", "zz:foo"],
    "a script": ["--model", "scripted:absent"],
    "a script that is none": ["--model", "scripted:a.txt"],
    "a recording": ["--model", "recorded:absent"],
    "a folder to record in": ["--record", "absent/talk.jsonl"],
    "a folder to record to": ["--record", "."],
    "a file that holds something": ["--record", "a.txt"],
}


@pytest.mark.parametrize("what", NO_PLAN)
def test_what_cannot_begin_is_refused_before_there_is_a_plan(desk: Desk, what: str) -> None:
    more = NO_PLAN[what]
    model = [] if "--model" in more else ["--model", f"scripted:{desk.script(write('x', 'x'))}"]

    said = desk.agents("run", "x", *model, *more)

    assert said.code == 2, said.message
    assert said.data == {}
    assert desk.agents("plan", "list", "--all").data["plans"] == []


def test_an_address_alone_is_no_task_yet(desk: Desk) -> None:
    said = desk.agents("run", "https://git.example/ada/shop/issues/7")

    assert (said.code, "no issue" in said.message, "@FILE" in said.message) == (2, True, True)
    assert desk.agents("plan", "list", "--all").data["plans"] == []


def test_under_manual_a_plan_is_made_and_waits(desk: Desk) -> None:
    said = desk.run(write("x", "x"), options=["--automation-profile", "manual"])

    assert (said.code, said.data["phase"], said.data["state"]) == (0, "strategize", "queued")
    assert "agents plan strategize" in desk.agents("plan", "status", is_json=False).out.decode()
    assert desk.agents("plan", "strategize").data["state"] == "complete"
    assert "agents plan execute" in desk.agents("plan", "status", is_json=False).out.decode()
    assert desk.agents("plan", "execute").data["changed"]


@pytest.mark.parametrize("what", NAMES)
def test_an_unknown_name_or_wrong_value_exits_2_and_says_what_is_known(
    desk: Desk, what: str
) -> None:
    path = desk.script(write("x", "x\n"))
    words = NAMES[what]
    more = ["--model", f"scripted:{path}"] if words[0] == "run" and "--model" not in words else []

    said = desk.agents(*words, *more, is_json=False)

    assert said.code == 2, said.err
    assert "Traceback" not in said.err
    assert len(said.err) > len("error: ")


def test_without_any_model_there_are_three_cures(desk: Desk) -> None:
    closed = {"OLLAMA_HOST": "http://127.0.0.1:9"}

    said = desk.agents("run", "mend it", environ=closed)

    assert said.code == 4, said.message
    assert sum(word in said.message for word in ("ollama", "OPENAI", "recorded", "--model")) >= 3


def read_only(folder: Path) -> None:
    for place in sorted((folder, *folder.rglob("*")), reverse=True):
        if not place.is_symlink():
            place.chmod(stat.S_IMODE(place.stat().st_mode) & ~0o222)


def test_a_read_only_checkout_works_but_for_the_apply(plain_desk: Desk) -> None:
    read_only(plain_desk.repo)
    before = bits(plain_desk.repo)

    said = plain_desk.run(shell("echo more >> a.txt"), options=["--validate", "grep more a.txt"])

    assert said.code == 0, said.message
    assert said.changed == {"a.txt": "modified"}
    if plain_desk.user is not None or os.geteuid() != 0:
        refused = plain_desk.agents("plan", "apply")
        assert refused.code in {1, 3}
        assert str(plain_desk.repo) in refused.message
    assert bits(plain_desk.repo) == before


@pytest.mark.service("root")
def test_a_checkout_on_a_read_only_file_system_works(desk: Desk) -> None:
    subprocess.run(["mount", "--bind", str(desk.repo), str(desk.repo)], check=True)
    remount = ["mount", "-o", "remount,ro,bind", str(desk.repo)]
    subprocess.run(remount, check=True)
    try:
        said = desk.run(shell("echo more >> a.txt"))
        assert said.code == 0, said.message
        refused = desk.agents("plan", "apply")
        assert refused.code in {1, 3}
        assert str(desk.repo) in refused.message
    finally:
        subprocess.run(["umount", str(desk.repo)], check=True)
    answer = desk.agents("plan", "apply")
    assert answer.code == 0, answer.message


def test_a_state_folder_that_cannot_be_written_is_named(plain_desk: Desk) -> None:
    place = plain_desk.folder / "state"
    place.mkdir(mode=0o500)
    if plain_desk.user is not None:
        os.chown(place, plain_desk.user, plain_desk.user)

    said = plain_desk.run(write("x", "x\n"))

    assert said.code in {3, 4}, said.message
    assert str(place) in said.message
    assert "PATCHYARD_HOME" in said.message


def database(desk: Desk) -> Path:
    return desk.folder / "state" / "patchyard.db"


def test_a_database_of_a_newer_version_is_left_alone(desk: Desk) -> None:
    assert desk.run(write("x", "x\n")).code == 0
    with sqlite3.connect(database(desk)) as connection:
        connection.execute("PRAGMA user_version = 9999")
    connection.close()
    before = database(desk).read_bytes()

    said = desk.agents("plan", "list")

    assert said.code == 3, said.message
    assert "newer" in said.message
    assert str(database(desk)) in said.message
    assert database(desk).read_bytes() == before


@pytest.mark.parametrize("content", [b"no database at all\n" * 100, b""])
def test_a_foreign_file_in_the_databases_place_is_not_overwritten(
    desk: Desk, content: bytes
) -> None:
    database(desk).parent.mkdir(mode=0o700)
    database(desk).write_bytes(content)

    said = desk.agents("plan", "list")

    assert said.code == (1 if content else 0), said.message
    if content:
        assert str(database(desk)) in said.message
        assert database(desk).read_bytes() == content


def test_a_plan_of_another_database_is_named_with_the_database(desk: Desk) -> None:
    plan = desk.run(write("x", "x\n")).data["plan_id"]
    other = replace(desk, folder=desk.folder / "elsewhere")
    other.home.mkdir(parents=True)

    for words in (["status"], ["diff"], ["apply"], ["resume"], ["cancel"], ["events"]):
        said = other.agents("plan", *words, plan)
        assert said.code == 2, said.message
        assert plan in said.message
        assert "PATCHYARD_HOME" in said.message


def test_two_processes_on_one_plan_are_kept_apart(desk: Desk) -> None:
    waiting = Waiting(desk, "execute")

    with waiting.start() as process:
        for words in (["resume"], ["execute"], ["apply"]):
            said = desk.agents("plan", *words)
            assert said.code == 3, said.message
            assert str(process.pid) in said.message
            assert "plan cancel" in said.message
        waiting.release()
        assert process.wait(LONGEST_S) == 0

    assert desk.agents("plan", "status").changed == {"result": "added"}
    assert desk.agents("plan", "apply").code == 0


def test_an_apply_over_newer_work_changes_nothing(desk: Desk) -> None:
    said = desk.run(shell("sed -i s/one/ONE/ a.txt; echo b > b"))
    assert said.code == 0, said.message
    (desk.repo / "a.txt").write_text("mine\ntwo\n")
    before = bits(desk.repo)
    del before[".git"]  # the lock of the turn comes and goes there

    for to in ("worktree", "merge"):
        refused: Answer = desk.agents("plan", "apply", "--to", to)
        assert refused.code == 3, refused.message
        assert "a.txt" in refused.message
        after = bits(desk.repo)
        del after[".git"]
        assert after == before


def test_a_merge_ends_where_another_git_holds_the_index(desk: Desk) -> None:
    assert desk.run(shell("sed -i s/one/ONE/ a.txt")).code == 0
    lock = desk.repo / ".git/index.lock"
    lock.touch()

    refused = desk.agents("plan", "apply", "--to", "merge")

    assert (refused.code, f"rm {lock}" in refused.message) == (3, True)
    assert (desk.repo / "a.txt").read_text() == "one\ntwo\n"
    lock.unlink()
    assert desk.agents("plan", "apply", "--to", "merge").code == 0


def test_phases_out_of_turn_are_refused_with_the_next_step(desk: Desk) -> None:
    path = desk.script(write("x", "x\n"))
    said = desk.agents("run", "x", "--model", f"scripted:{path}", "--validate", "false",
                       "--rounds", "0")  # fmt: skip
    assert said.code == 1

    for words in (["apply"], ["unapply"]):
        refused = desk.agents("plan", *words)
        assert refused.code == 3, refused.message
        assert "agents plan" in refused.message
