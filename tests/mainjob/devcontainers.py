"""What tests of devcontainers share: a repository that has one, and what comes of its plans."""

import json
from collections.abc import Mapping
from typing import Any

from mainjob.driver import Answer, Desk, finish, git, shell

__all__ = ["CONFIG", "added", "described", "linked", "notes", "ran", "state"]

CONFIG = ".devcontainer/devcontainer.json"


def described(desk: Desk, body: dict[str, Any], *, dockerfile: str = "") -> None:
    """Commit a devcontainer, and add the checkout and the project `shop`."""
    folder = desk.repo / ".devcontainer"
    folder.mkdir(exist_ok=True)
    (folder / "devcontainer.json").write_text(f"// the shop\n{json.dumps(body)}")
    if dockerfile:
        (folder / "Dockerfile").write_text(dockerfile)
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "devcontainer")


def added(desk: Desk) -> Answer:
    """Add the project `shop` and the checkout, whose devcontainer is found then."""
    desk.agents("project", "create", "shop")
    return desk.agents("resource", "add", "git-checkout", "co", "--path", ".")


def ran(
    desk: Desk,
    *options: str,
    command: str = "echo x > x.txt",
    environ: Mapping[str, str] | None = None,
) -> Answer:
    """Run one command in a plan of its own."""
    script = desk.script(shell(command), finish("done"))
    return desk.agents("run", "do it", "--model", f"scripted:{script}", *options, environ=environ)


def notes(desk: Desk) -> list[str]:
    """What the journal of the newest plan says to people."""
    events = desk.agents("plan", "events", "@last").data["events"]
    return [event["text"] for event in events if event["event"] == "Noted"]


def state(desk: Desk) -> str:
    """How the devcontainer stands."""
    found: str = desk.agents("resource", "show", "co-devcontainer").data["state"]
    return found


def linked(desk: Desk) -> None:
    """Add the checkout, and link its devcontainer to the project."""
    added(desk)
    desk.agents("project", "link-resource", "shop", "co-devcontainer")
