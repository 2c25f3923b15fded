"""Repositories that have a hostile devcontainer committed, one of the table at a time."""

import json

from mainjob.driver import Answer, Desk, git
from mainjob.hostile_devcontainers import CONFIG, IMAGE, Case

__all__ = ["committed", "said", "written"]


def written(case: Case) -> str:
    """The text of its devcontainer.json; one that names nothing to start gets an image."""
    if isinstance(case.body, str):
        return case.body
    has_own = case.body.keys() & {"image", "build", "dockerFile", "dockerComposeFile"}
    return json.dumps(case.body if has_own else {"image": IMAGE, **case.body})


def committed(desk: Desk, case: Case) -> None:
    """Commit the files of a case, and none of another."""
    git(desk.repo, "rm", "-rqf", "--ignore-unmatch", ".devcontainer")
    files = {CONFIG: written(case).replace("$CANARY", str(desk.canary)), **case.files}
    for path, content in files.items():
        place = desk.repo / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    for path, target in case.links.items():
        (desk.repo / path).symlink_to(target)
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "--allow-empty", "-m", "devcontainer")


def said(answer: Answer) -> str:
    return f"{answer.message}\n{answer.err}"
