"""What the tests of this folder ask for, and what is held beside it."""

import os
from pathlib import Path
from typing import Any

from patchyard.domain.holdings import Holdings
from patchyard.domain.project import Project
from patchyard.intake import Asked, Intake, take_in


def taken(top: Path, holdings: Holdings | None = None, **asked: Any) -> Intake:
    environ = {k: v for k, v in os.environ.items() if k in {"HOME", "PATH", "XDG_CONFIG_HOME"}}
    environ |= asked.pop("environ", {})
    wanted = Asked(task="t", repository=str(top), **asked)
    return take_in(wanted, environ, holdings or Holdings())


def held(project: Project, **more: Any) -> Holdings:
    return Holdings(projects={project.name: project}, **more)
