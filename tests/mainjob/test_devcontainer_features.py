"""Features of a devcontainer, installed by the official CLI and a real engine."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from images import WITHOUT_PYTHON, image
from mainjob.devcontainers import described, linked, notes, ran, state
from mainjob.driver import Desk
from mainjob.registries import registry
from mainjob.watched_engines import ACCOUNTS

pytestmark = [
    pytest.mark.service("devcontainers-cli"),
    pytest.mark.service("docker"),
    pytest.mark.timeout(900),  # several builds each
]
TOOL: Mapping[str, Any] = {
    "id": "tool",
    "version": "1.0.0",
    "options": {"level": {"type": "string", "default": "low"}},
    "containerEnv": {"TOOL_HOME": "/opt/tool", "PATH": "/opt/tool/bin:${PATH}"},
    "dependsOn": {"./ground": {}},
    "onCreateCommand": "mkdir -p made && echo tool-created >> made/by",
    "postStartCommand": {"log": ["sh", "-c", "echo tool-started >> /tmp/started"]},
}
GROUND: Mapping[str, Any] = {
    "id": "ground",
    "version": "1.0.0",
    "onCreateCommand": "mkdir -p made && echo ground-created >> made/by",
}
INSTALL = """#!/bin/sh
set -e
cat /opt/ground
mkdir -p /opt/tool/bin
printf '#!/bin/sh\\necho tool at %s of %s\\n' "$LEVEL" "$_REMOTE_USER" > /opt/tool/bin/tool
chmod +x /opt/tool/bin/tool
"""


def feature(desk: Desk, body: Mapping[str, Any], install: str) -> Path:
    """Write a feature of the repository's own."""
    folder = desk.repo / ".devcontainer" / str(body["id"])
    folder.mkdir(parents=True)
    (folder / "devcontainer-feature.json").write_text(f"// {desk.folder.name}\n{json.dumps(body)}")
    (folder / "install.sh").write_text(install)
    return folder


def featured(desk: Desk, said: Mapping[str, Any], **further: Any) -> None:
    """Commit a devcontainer with features, and link it."""
    built = {"dockerfile": "Dockerfile", "args": {"BASE": image(WITHOUT_PYTHON)}}
    described(
        desk,
        {"build": built, "features": said, **further},
        dockerfile=f"ARG BASE\nFROM ${{BASE}}\nRUN {ACCOUNTS}\n",
    )
    linked(desk)


def test_features_are_installed_in_order_and_their_commands_and_variables_count(desk: Desk) -> None:
    feature(desk, GROUND, "#!/bin/sh\nmkdir -p /opt\ncat /proc/net/dev > /opt/ground\n")
    feature(desk, TOOL, INSTALL)
    (desk.repo / ".gitignore").write_text("made/\n")
    featured(
        desk,
        {"./tool": {"level": "high"}},
        remoteUser="vscode",
        onCreateCommand="echo own-created >> made/by",
        postStartCommand="echo own-started >> /tmp/started",
    )
    command = "(tool; echo $TOOL_HOME; cat made/by /tmp/started; cat /opt/ground) > seen.txt"
    done = ran(desk, "--in", "co-devcontainer", "--apply", "worktree", command=command)
    assert done.code == 0, done.message
    seen = (desk.repo / "seen.txt").read_text()
    assert seen.splitlines()[:7] == [
        "tool at high of vscode",
        "/opt/tool",
        *("ground-created", "tool-created", "own-created"),
        *("tool-started", "own-started"),
    ]
    assert "lo:" in seen, "the build looked at the network"
    assert "eth0" not in seen
    made = [note for note in notes(desk) if note.startswith("building")]
    assert made[1:] == ["building co-devcontainer by the features ./tool"]
    assert state(desk) == "stopped"
    again = ran(desk, "--in", "co-devcontainer")
    assert (again.code, notes(desk)) == (0, []), again.message
    forgotten = desk.agents("resource", "rebuild", "co-devcontainer").data["images"]
    assert len(forgotten) == 2, "and nothing that only the build needed"


def test_after_trust_one_is_fetched_and_no_wall_falls_for_any(desk: Desk) -> None:
    asks = {
        "privileged": True,
        "entrypoint": "/bin/false",
        "mounts": [{"source": "/", "target": "/host", "type": "bind"}],
    }
    distant = {"id": "distant", "version": "1.0.0", "capAdd": ["SYS_ADMIN"]}
    with registry(distant, "#!/bin/sh\necho fetched > /distant\n") as name:
        further = {"dependsOn": {name: {}}, **asks}
        feature(desk, {**GROUND, **further}, "#!/bin/sh\ncat /distant\n")
        featured(desk, {"./ground": {}})
        refused = ran(desk, "--in", "co-devcontainer")
        assert refused.code == 3
        asked = ("privileged", "mounts", "entrypoint")
        listed = ", ".join(f"{key} of ./ground" for key in asked)
        assert f"says {listed}, the feature {name}, which an untrusted" in refused.message
        assert desk.agents("trust").code == 0
        command = "(cat /distant; grep CapBnd /proc/self/status; ls -d /host || echo none) > walls"
        done = ran(desk, "--in", "co-devcontainer", "--apply", "worktree", command=command)
    assert done.code == 0, done.message
    assert "entrypoint of ./ground count for nothing here" in done.err
    assert f".devcontainer/devcontainer.json: capAdd of {name} counts for nothing here" in notes(
        desk
    )
    seen = (desk.repo / "walls").read_text().split()
    assert seen == ["fetched", "CapBnd:", "0" * 16, "none"]
    said = desk.repo / ".devcontainer/ground/devcontainer-feature.json"
    said.write_text(said.read_text() + "\n")
    assert ran(desk, "--in", "co-devcontainer").code == 3, "trust was for another text"


def test_a_feature_that_fails_is_exit_4_with_its_last_words_and_leaves_nothing(desk: Desk) -> None:
    feature(desk, GROUND, "#!/bin/sh\necho no room here >&2; exit 3\n")
    featured(desk, {"./ground": {}})
    lost = ran(desk, "--in", "co-devcontainer")
    assert (lost.code, "what installs the features does not build" in lost.message) == (4, True)
    output = desk.agents("plan", "errors").data["errors"][0]["details"]["output"]
    assert "no room here" in output
    assert state(desk) == "failed"
    rebuilt = desk.agents("resource", "rebuild", "co-devcontainer")
    assert rebuilt.code == 0, rebuilt.message
    assert len(rebuilt.data["images"]) == 1


def test_a_link_in_a_feature_is_refused_and_leads_nowhere(desk: Desk) -> None:
    folder = feature(desk, GROUND, "#!/bin/sh\ncat secret > /secret\n")
    (folder / "secret").symlink_to("/etc/hostname")
    featured(desk, {"./ground": {}})
    lost = ran(desk, "--in", "co-devcontainer")
    assert (lost.code, ".devcontainer/ground/secret is a link" in lost.message) == (4, True)


def test_what_the_cli_cannot_do_is_told_in_its_words(desk: Desk) -> None:
    body = {**GROUND, "dependsOn": {"registry.invalid/x/go:1": {}}}
    feature(desk, body, "#!/bin/sh\ntrue\n")
    featured(desk, {"./ground": {}})
    refused = ran(desk, "--in", "co-devcontainer")
    assert refused.code == 3
    assert "the feature registry.invalid/x/go:1, which an untrusted" in refused.message
    assert desk.agents("trust").code == 0
    lost = ran(desk, "--in", "co-devcontainer")
    assert lost.code == 4
    assert "the devcontainers CLI cannot install the features: " in lost.message
    assert "registry.invalid" in lost.message


def test_a_fetched_feature_whose_name_is_a_path_is_refused(desk: Desk) -> None:
    distant = {"id": "a/../../distant", "version": "1.0.0"}
    with registry(distant, "#!/bin/sh\ntrue\n") as name:
        featured(desk, {name.replace(str(distant["id"]), "distant"): {}})
        assert desk.agents("trust").code == 0
        lost = ran(desk, "--in", "co-devcontainer")
    assert lost.code == 4
    assert "'a/../../distant' is no name of a feature" in lost.message


def test_without_the_cli_its_cure_is_said(desk: Desk) -> None:
    feature(desk, GROUND, "#!/bin/sh\ntrue\n")
    featured(desk, {"./ground": {}})
    without = []
    for number, place in enumerate(map(Path, os.environ["PATH"].split(":"))):
        without.append(str(place))
        if (place / "devcontainer").exists():  # other programs may lie beside it
            without[-1] = str(desk.folder / f"programs-{number}")
            Path(without[-1]).mkdir()
            for each in place.iterdir():
                if each.name != "devcontainer":
                    Path(without[-1], each.name).symlink_to(each)
    lost = ran(desk, "--in", "co-devcontainer", environ={"PATH": ":".join(without)})
    assert (lost.code, "npm install -g @devcontainers/cli" in lost.message) == (4, True)
