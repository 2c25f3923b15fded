"""A repository's devcontainer, from its discovery to a change set, by the command line."""

from typing import Any

import pytest

from images import WITHOUT_PYTHON, built_on, image
from mainjob.devcontainers import CONFIG, added, described, linked, notes, ran, state
from mainjob.driver import Desk, git

pytestmark = [pytest.mark.service("docker")]


def built(desk: Desk, *, run: str = "echo built > /built") -> None:
    described(
        desk,
        {
            "build": {"dockerfile": "Dockerfile", "args": {"BASE": image(WITHOUT_PYTHON)}},
            "containerEnv": {"SHOP": "${containerWorkspaceFolder}"},
            "workspaceFolder": "/workspaces/shop",
            "remoteUser": "vscode",
            "postCreateCommand": "mkdir -p made && echo created > made/by",
            "postStartCommand": "echo started > /tmp/started",
        },
        dockerfile=f"# {desk.folder.name}\nARG BASE\nFROM ${{BASE}}\nRUN {run}\n",
    )
    (desk.repo / ".gitignore").write_text("made/\n")
    (desk.repo / ".devcontainer" / ".gitattributes").write_text("Dockerfile export-ignore\n")
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "ignore")


def test_it_is_found_built_used_stopped_and_built_anew(desk: Desk) -> None:
    built(desk)
    assert added(desk).data["discovered"] == ["co-devcontainer"]
    assert state(desk) == "discovered"
    assert desk.agents("project", "link-resource", "shop", "co-devcontainer").code == 0
    command = "(whoami; cat /built /tmp/started made/by; echo $SHOP) > /workspaces/shop/seen.txt"
    done = ran(desk, "--in", "co-devcontainer", "--apply", "worktree", command=command)
    assert done.code == 0, done.message
    assert done.changed == {"seen.txt": "added"}
    seen = (desk.repo / "seen.txt").read_text().split()
    assert seen == ["vscode", "built", "started", "created", "/workspaces/shop"]
    assert "building co-devcontainer by .devcontainer/Dockerfile" in notes(desk)
    assert state(desk) == "stopped"
    again = ran(desk, "--in", "container", command="rm -f .devcontainer/Dockerfile")
    assert (again.code, notes(desk)) == (0, []), again.message
    forgotten = desk.agents("resource", "rebuild", "co-devcontainer")
    assert len(forgotten.data["images"]) == 1
    ran(desk, "--in", "co-devcontainer")
    assert len(notes(desk)) == 1
    stopped = desk.agents("resource", "stop", "co-devcontainer")
    assert (stopped.code, stopped.data["ended"]) == (0, [])


def test_folders_whose_names_come_to_the_same_are_told_apart(desk: Desk) -> None:
    for name in ("a.b", "a-b", "a b"):
        folder = desk.repo / ".devcontainer" / name
        folder.mkdir(parents=True)
        (folder / "devcontainer.json").write_text('{"image": "i"}')
    named = added(desk).data["discovered"]
    assert named == [f"co-devcontainer-a-b{end}" for end in ("", "-2", "-3")]


def test_a_discovered_one_changes_nothing_until_discovery_is_switched_on(desk: Desk) -> None:
    described(desk, {"image": image(WITHOUT_PYTHON)})
    added(desk)
    plain = ran(desk)
    assert plain.data["environment"] == "process", plain.message
    desk.agents("project", "context", "set", "execution_env_discovery", "true")
    found = ran(desk)
    assert found.data["environment"] == "devcontainer", found.message
    routes = desk.agents("plan", "route", "@last", "execute_command").data["routes"]
    assert (routes[0]["level"], routes[0]["resource"]) == ("devcontainer", "co-devcontainer")


def test_a_build_that_fails_is_exit_4_with_its_words_and_no_network(desk: Desk) -> None:
    built(desk, run="cat /proc/net/dev >&2 && false")
    added(desk)
    desk.agents("project", "link-resource", "shop", "co-devcontainer")
    lost = ran(desk, "--in", "co-devcontainer")
    assert (lost.code, "Dockerfile does not build: `RUN cat" in lost.message) == (4, True)
    assert "mend that step" in lost.message, "it reached out for nothing"
    shown = desk.agents("resource", "show", "co-devcontainer").data
    assert (shown["state"], "does not build" in shown["cause"]) == ("failed", True)
    output = desk.agents("plan", "errors").data["errors"][0]["details"]["output"]
    assert "lo:" in output
    assert "eth0" not in output


def test_an_image_that_would_fetch_in_builds_on_it_is_refused(desk: Desk) -> None:
    on = built_on(image(WITHOUT_PYTHON), "ONBUILD ADD https://registry.invalid/x /")
    described(desk, {"build": {"dockerfile": "Dockerfile"}}, dockerfile=f"FROM {on}\n")
    linked(desk)
    lost = ran(desk, "--in", "co-devcontainer")
    assert (lost.code, f"ONBUILD of {on}:1: ADD of https" in lost.message) == (4, True)


def test_what_only_trust_lets_count_is_refused_and_counts_for_nothing_then(desk: Desk) -> None:
    described(
        desk,
        {
            "image": image(WITHOUT_PYTHON),
            "privileged": True,
            "initializeCommand": f"touch {desk.canary}/ran",
            "containerEnv": {"HOST": "${localEnv:LANG:none}"},
        },
    )
    added(desk)
    desk.agents("project", "link-resource", "shop", "co-devcontainer")
    refused = ran(desk, "--in", "co-devcontainer")
    assert refused.code == 3
    said = "says initializeCommand, privileged, ${localEnv:LANG} in containerEnv.HOST, which an"
    assert said in refused.message
    assert desk.agents("trust").code == 0
    command = "grep -E '^(CapBnd|NoNewPrivs)' /proc/self/status > walls.txt"
    done = ran(desk, "--in", "co-devcontainer", "--apply", "worktree", command=command)
    assert done.code == 0, done.message
    assert "initializeCommand, privileged count for nothing here" in done.err
    walls = (desk.repo / "walls.txt").read_text().split()
    assert sorted(walls) == sorted(["CapBnd:", "0" * 16, "NoNewPrivs:", "1"])
    assert desk.ran == []
    (desk.repo / CONFIG).write_text((desk.repo / CONFIG).read_text() + "\n")
    assert ran(desk, "--in", "co-devcontainer").code == 3


def test_a_command_of_its_start_that_fails_ends_the_plan_and_leaves_nothing(desk: Desk) -> None:
    described(desk, {"image": image(WITHOUT_PYTHON), "postStartCommand": "echo no; exit 3"})
    added(desk)
    desk.agents("project", "link-resource", "shop", "co-devcontainer")
    lost = ran(desk, "--in", "co-devcontainer")
    assert (lost.code, "`echo no; exit 3` failed: exit code 3" in lost.message) == (4, True)
    assert state(desk) == "failed"
    assert not [place for place in (desk.folder / "state" / "run").glob("0*") if place.is_dir()]


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        (
            "a feature that is not there",
            {"image": "i", "features": {"./none": {}}},
            ".devcontainer/none is not there",
        ),
        ("an unknown reference", {"image": "${what}"}, "{what} is not known here"),
        ("no image", {}, "names neither"),
    ],
)
def test_what_cannot_be_had_is_named_before_anything_starts(
    desk: Desk, name: str, body: dict[str, Any], words: str
) -> None:
    described(desk, body)
    added(desk)
    desk.agents("project", "link-resource", "shop", "co-devcontainer")
    refused = ran(desk, "--in", "co-devcontainer")
    assert (refused.code, words in refused.message) == (2, True), f"{name}: {refused.message}"
    plain = ran(desk, "--in", "process")
    assert plain.code == 0, plain.message


@pytest.mark.service("docker")
def test_an_image_that_is_gone_is_kept_as_why_it_fails(desk: Desk) -> None:
    described(desk, {"image": "none/such:1"})
    linked(desk)
    assert ran(desk, "--in", "co-devcontainer").code == 4
    shown = desk.agents("resource", "show", "co-devcontainer").data
    assert (shown["state"], shown["cause"]) == ("failed", "there is no image 'none/such:1' here")


def test_one_that_is_added_by_hand_needs_a_file(desk: Desk) -> None:
    wrong = desk.agents("resource", "add", "devcontainer-instance", "dev", "--path", ".")
    assert (wrong.code, "no devcontainer.json" in wrong.message) == (2, True), wrong.message
    described(desk, {"image": "i"})
    made = desk.agents("resource", "add", "devcontainer-instance", "dev", "--path", ".")
    assert (made.data["config"], made.data["parent"]) == (CONFIG, None)
    for word in ("stop", "rebuild"):
        desk.agents("resource", "add", "directory", f"d-{word}", "--path", ".")
        odd = desk.agents("resource", word, f"d-{word}")
        assert (odd.code, "only a devcontainer-instance" in odd.message) == (2, True)


def test_what_runs_as_a_proof_starts_and_what_its_variables_name_is_listed(desk: Desk) -> None:
    """The start of each environment of a proof runs scripts of the result."""
    starts = {"sh": "sh tools/start.sh", "py": "cat ${containerWorkspaceFolder}/tools/start.py"}
    files = {
        "tools/start.sh": "true\n",
        "tools/start.py": "pass\n",
        "tools/read.sh": "true\n",
        "tools/own.sh": "true\n",
        "tools/image.sh": "true\n",
        "tools/old.py": "pass\n",
        "tools/free.py": "pass\n",
        "facts.txt": "4\n",
    }
    (desk.repo / "tools").mkdir()
    for path, text in files.items():
        (desk.repo / path).write_text(text)
    described(
        desk,
        {
            "build": {"dockerfile": "Dockerfile"},
            "containerEnv": {"BASH_ENV": "tools/own.sh"},
            "remoteEnv": {"ENV": "${containerWorkspaceFolder}/tools/far.py"},
            "workspaceFolder": "/workspaces/shop",
            "postStartCommand": starts,
            "postAttachCommand": "for each in facts*; do cat $each > /tmp/facts; done",
        },
        dockerfile=f"FROM {image(WITHOUT_PYTHON)}\n"
        "ENV SCRIPT=tools/image.sh \\\n  OTHER='x'\nENV OLD tools/old.py\n",
    )
    linked(desk)
    command = "for each in tools/* facts.txt; do echo '# changed' >> $each; done"
    given = f"test -e /tmp/facts; echo {desk.repo}/tools/given.py"
    proof = ("--validate", given)
    done = ran(desk, "--in", "co-devcontainer", *proof, command=command)
    assert done.code == 0, done.message
    free = {"tools/free.py", "tools/read.sh"}
    assert set(done.data["touched_proof"]) == files.keys() - free
