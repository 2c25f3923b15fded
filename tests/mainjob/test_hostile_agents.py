"""What an agent arranges in its workspace runs nothing outside, and does not pass unseen."""

from pathlib import Path

import pytest

from mainjob.driver import Answer, Desk, bits, git, shell, write

pytestmark = pytest.mark.service("bubblewrap")

NESTED_REPOSITORY = """
set -e
for place in sub/nested .; do
  mkdir -p $place; cd $place
  test -d .git || git init -q
  printf '* filter=x diff=x merge=x\\n' > .gitattributes
  for order in filter.x.clean filter.x.smudge filter.x.process diff.external core.fsmonitor \
    diff.x.textconv merge.x.driver core.sshCommand core.alternateRefsCommand core.pager; do
    git config --file .git/config $order 'touch CANARY/agent-git; false'
  done
  git config --file .git/config core.hooksPath "$PWD/.git/hooks"
  mkdir -p .git/hooks
  for hook in post-checkout post-index-change reference-transaction pre-commit; do
    printf '#!/bin/sh\\ntouch CANARY/agent-hook\\n' > .git/hooks/$hook; chmod +x .git/hooks/$hook
  done
  cd - > /dev/null
done
echo inner > sub/nested/file
"""
RUINED_GIT = {
    "deleted": "rm -rf .git",
    "a file": "rm -rf .git; echo 'gitdir: /etc' > .git",
    "a link": "rm -rf .git; ln -s / .git",
    "a FIFO": "rm -rf .git; mkfifo .git",
    "a corrupt index": "head -c 4096 /dev/urandom > .git/index",
    "a HEAD elsewhere": "echo 'ref: refs/heads/../../../../etc/passwd' > .git/HEAD",
    "alternates": "echo /etc > .git/objects/info/alternates; echo /proc/self > .git/commondir",
}


def execute(desk: Desk, *texts: str, options: tuple[str, ...] = (), in_: str = "") -> Answer:
    replies = [shell(text.replace("CANARY", str(desk.canary))) for text in texts]
    said = desk.run(*replies, options=["--validate", "true", *options], in_=in_)
    assert said.code == 0, said.message
    return said


def test_nested_repositories_and_drivers_run_nothing_and_are_held_back(desk: Desk) -> None:
    before = bits(desk.repo)

    said = execute(desk, NESTED_REPOSITORY, "echo more >> a.txt")

    assert desk.ran == []
    assert said.findings == {
        ".gitattributes": "protected_path",
        "sub/nested/.git": "nested_git",
        "sub/nested/.gitattributes": "protected_path",
    }
    assert set(said.changed) >= {"a.txt", ".gitattributes"}
    refused = desk.agents("plan", "apply")
    assert refused.code == 3
    assert "--allow-path 'sub/nested/.git'" in refused.message
    after = bits(desk.repo)
    del before[".git"], after[".git"]  # the lock of the turn comes and goes there
    assert after == before
    answer = desk.agents(
        "plan", "apply", "--allow-path", ".gitattributes", "--allow-path", "sub/nested"
    )
    assert answer.code == 0, answer.message
    assert not (desk.repo / "sub/nested/.git").exists()
    assert (desk.repo / "sub/nested/file").read_text() == "inner\n"
    assert desk.agents("plan", "unapply").code == 0
    assert desk.ran == []
    assert git(desk.repo, "status", "--porcelain") == ""


@pytest.mark.parametrize("ruin", RUINED_GIT)
def test_whatever_becomes_of_its_git_only_the_tree_counts(desk: Desk, ruin: str) -> None:
    said = execute(desk, "echo more >> a.txt", RUINED_GIT[ruin])

    assert said.changed == {"a.txt": "modified"}
    assert desk.agents("plan", "apply").code == 0
    assert (desk.repo / "a.txt").read_text() == "one\ntwo\nmore\n"
    assert git(desk.repo, "status", "--porcelain") == " M a.txt\n"


ODD = """
mkdir -p d/e && echo x > d/e/x
rm a.txt && mkfifo a.txt
ln -s /etc/passwd passwd
ln -s ../../../../../../../etc up
ln -s "$PWD" inside
python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('sock')"
cp /bin/true suid && chmod 4755 suid
echo x > 'new
line' && echo y > "$(printf '\\377\\376')" && echo z > -rf
mkdir shut && echo in > shut/file && chmod 0 shut
echo closed > closed && chmod 0 closed
chmod 000 d
"""


def special(said: Answer) -> dict[str, str]:
    return {path: kind for path, kind in said.findings.items() if kind != "protected_path"}


def test_odd_files_of_an_agent_are_findings_and_never_opened(desk: Desk) -> None:
    said = execute(desk, ODD)

    found = special(said)
    assert found["a.txt"] == "special_file"
    assert found["sock"] == "special_file"
    assert found["passwd"] == "escaping_link"
    assert found["up"] == "escaping_link"
    assert "inside" not in found
    assert (said.changed["suid"], found["suid"]) == ("added", "setuid")
    assert said.changed["a.txt"] == "deleted"
    assert desk.agents("plan", "apply").code == 3
    answer = desk.agents("plan", "apply", *(f"--allow-path={path}" for path in found))
    assert answer.code == 0, answer.message
    assert not (desk.repo / "a.txt").exists()
    assert (desk.repo / "passwd").is_symlink()
    assert (desk.repo / "suid").stat().st_mode & 0o7777 == 0o755
    assert desk.agents("plan", "unapply").code == 0
    assert git(desk.repo, "status", "--porcelain") == ""


def test_an_ordinary_users_agent_does_the_same_to_no_avail(plain_desk: Desk) -> None:
    said = execute(plain_desk, NESTED_REPOSITORY, ODD)

    assert plain_desk.ran == []
    found = special(said)
    assert {found[path] for path in ("a.txt", "sock")} == {"special_file"}
    assert found["passwd"] == "escaping_link"
    assert found["sub/nested/.git"] == "nested_git"
    assert plain_desk.agents("plan", "apply").code == 3


def test_devices_cannot_be_made_in_the_sandbox(desk: Desk) -> None:
    said = execute(desk, "mknod null c 1 3 || mknod disk b 259 0 || echo refused > result")

    assert said.changed == {"result": "added"}


def test_a_link_in_the_place_of_a_folder_is_not_followed_at_apply(desk: Desk) -> None:
    (desk.repo / "d").mkdir()
    (desk.repo / "d/x").write_text("x\n")
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "d")
    outside = desk.folder / "outside"
    outside.mkdir()

    said = execute(desk, f"rm -r d && ln -s {outside} d", "true")

    assert said.findings == {"d": "escaping_link"}
    answer = desk.agents("plan", "apply", "--allow-path", "d")
    assert answer.code == 0, answer.message
    assert (desk.repo / "d").readlink() == outside
    assert desk.agents("plan", "unapply").code == 0
    assert (desk.repo / "d/x").read_text() == "x\n"
    assert desk.agents("plan", "apply", "--allow-path", "d").code == 0
    again = desk.run(shell(f"rm d && mkdir d && echo mine > d/x && ls {outside.parent}; true"))
    assert again.code == 0, again.message
    answer = desk.agents("plan", "apply")
    assert answer.code == 0, answer.message
    assert (desk.repo / "d/x").read_text() == "mine\n"
    assert desk.agents("plan", "unapply").code == 0
    assert (desk.repo / "d").readlink() == outside
    assert list(outside.iterdir()) == []


@pytest.mark.slow
def test_a_sparse_file_of_a_gigabyte_is_carried(desk: Desk) -> None:
    said = execute(desk, "truncate -s 1G big && echo x > small")

    assert said.changed["small"] == "added"
    assert said.changed["big"] == "added"


def test_what_runs_by_itself_waits_for_a_persons_eye(desk: Desk) -> None:
    paths = {
        ".envrc", ".github/workflows/x.yml", ".vscode/tasks.json", "AGENTS.md", ".mcp.json",
        "sitecustomize.py", "deep/sitecustomize.py", ".husky/pre-commit", "x.pth",
        ".patchyard/config.yaml", ".npmrc", "CLAUDE.md", ".GitHub/workflows/y.yml",
    }  # fmt: skip
    said = desk.run(*(write(path, "x\n") for path in sorted(paths)))

    assert said.code == 0, said.message
    assert {*said.findings} == paths
    assert desk.agents("plan", "apply").code == 3
    chosen = min(paths)
    part = desk.agents("plan", "apply", "@last", chosen, "--allow-path", chosen)
    assert part.code == 0, part.message
    assert git(desk.repo, "status", "--porcelain", "-uall").count("\n") == 1
    assert Path(desk.repo, chosen).exists()
    assert desk.ran == []
