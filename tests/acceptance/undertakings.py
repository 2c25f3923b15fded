"""What the acceptance tests do with a release: a checkout, a conversation, a look at the result."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from acceptance.differences import edits, files
from acceptance.releases import Release

__all__ = ["IGNORED", "commit", "conversation", "ran", "require_published"]

IGNORED = (".venv/", "node_modules/", "__pycache__/", "*.egg-info/", ".pytest_cache/")


def ran(*command: str, cwd: Path, stdin: bytes = b"") -> bytes:
    """What a command printed, which has to end well."""
    done = subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, timeout=500, check=False
    )
    assert done.returncode == 0, (done.stdout[-4000:], done.stderr[-4000:])
    return done.stdout


def commit(
    release: Release,
    before: Path,
    after: Path,
    target: Path,
    *,
    beside: Mapping[str, Path] = MappingProxyType({}),
) -> None:
    """Commit the release with the bug, the tests of the later one, and what lies `beside` it."""
    before.rename(target)
    for place in release.tests:
        shutil.rmtree(target / place)
        shutil.copytree(after / place, target / place)
    for place, source in beside.items():
        shutil.copytree(source, target / place, symlinks=True)
    with (target / ".gitignore").open("a", encoding="utf-8") as ignored:
        ignored.write("\n".join(["", *IGNORED, ""]))
    ran("git", "init", "--quiet", cwd=target)
    ran("git", "add", "--all", "--force", ".", cwd=target)
    ran("git", "commit", "--quiet", "--message", f"{release.name} {release.before}", cwd=target)


def conversation(
    release: Release, steps: Sequence[Any], *, repository: Path, after: Path, target: Path
) -> int:
    """Write the conversation; the number of edits in it."""
    replies: list[dict[str, Any]] = []
    mended = list(edits(repository, after, release.package, version_file=release.version_file))
    for step in steps:
        if step == "edits":
            calls = [_call(*call) for call in mended]
            replies += [{"text": "Now the change.", "calls": [call]} for call in calls]
        elif "finish" in step:
            replies.append({"finish": step["finish"]})
        else:
            replies.append({"calls": [_call(*step)]})
    note = "Written by hand; the edits are computed from the two releases."
    target.write_text(json.dumps({"note": note, "execute": replies}), encoding="utf-8")
    return len(mended)


def _call(name: str, arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def require_published(release: Release, mended: Path, published: Path) -> None:
    """Fail unless the package folder is that of the later release, the version number aside."""
    found, wanted = files(mended / release.package), files(published / release.package)
    assert found.keys() == wanted.keys()
    for name, content in found.items():
        is_version = f"{release.package}/{name}" == release.version_file
        became = content.replace(release.before.encode(), release.after.encode())
        assert (became if is_version else content) == wanted[name], name
