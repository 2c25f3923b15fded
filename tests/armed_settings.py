"""The settings, hooks and attributes by which git can be made to run a program, each with its mark.

They are the tables of `patchyard.domain.git_settings`, and what git does besides. A row of a table
that no setting here stands for is armed under a name of its own; `armed_controls` must fire it.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from patchyard.domain.git_settings import COMMANDS, HOOKS

__all__ = ["ATTRIBUTES", "HOME_ONLY", "HOOK", "MARKS", "NESTED", "PLAIN", "SETTINGS", "script_of"]

NESTED = "vendor/nested"
SPECIFIC: Mapping[str, str] = {  # {NAME} is the program that leaves the mark NAME
    "alias.trap": "!{alias}",
    "core.alternateRefsCommand": "{alternate-refs}",
    "core.askPass": "{ask-pass}",
    "core.editor": "{editor}",
    "core.fsmonitor": "{fsmonitor}",
    "core.gitProxy": "{git-proxy}",
    "core.pager": "{pager}",
    "core.sshCommand": "{ssh-command}",
    "credential.helper": "!{credential-helper}",
    "credential.https://x.invalid.helper": "!{credential-helper-of-host}",
    "diff.external": "{diff-external}",
    "diff.x.command": "{diff-command}",
    "diff.y.textconv": "{textconv}",
    "filter.lfs.clean": "{lfs-clean}",
    "filter.lfs.smudge": "{lfs-smudge}",
    "filter.x.clean": "{clean}",
    "filter.x.smudge": "{smudge}",
    "filter.y.process": "{process}",
    "gpg.program": "{gpg}",
    "gpg.ssh.defaultKeyCommand": "{gpg-ssh-key}",
    "gpg.ssh.program": "{gpg-ssh}",
    "gpg.x509.program": "{gpg-x509}",
    "interactive.diffFilter": "{diff-filter}",
    "merge.x.driver": "{merge-driver} %A",
    "pager.show": "{pager-of-show}",
    "remote.ext.url": "ext::{ext}",
    "remote.served.receivepack": "{receive-pack}",
    "remote.served.uploadpack": "{upload-pack}",
    "remote.served.url": "file://{repo}",
    "sequence.editor": "{sequence-editor}",
    "submodule.nested.update": "!{submodule-update}",
    "tar.trap.command": "{archive}",
    "trailer.other.cmd": "{trailer-cmd}",
    "trailer.trap.command": "{trailer}",
    "uploadpack.packObjectsHook": "{pack-objects-hook}",
    "url.ext::{instead-of} .insteadOf": "trap:",
}
HOME_ONLY = "pack-objects-hook"  # git obeys that one in the user's own configuration alone
OTHERS = [row for row in COMMANDS if not any(fnmatchcase(key.lower(), row) for key in SPECIFIC)]
SETTINGS: Mapping[str, str] = {
    **SPECIFIC,
    **{key: f"{{{key}}}" for key in (row.replace("*", "trap") for row in OTHERS)},
}
PLAIN: Mapping[str, str] = {  # what makes them count
    "commit.gpgSign": "true",
    "core.checkStat": "minimal",  # as the user of a copy out of an archive has it
    "core.trustctime": "false",
    "gc.auto": "1",
    "gc.autoDetach": "false",
    "hook.trap.event": "pre-commit",
    "protocol.allow": "always",
    "protocol.ext.allow": "always",
    "receive.denyCurrentBranch": "updateInstead",
    "receive.procReceiveRefs": "refs/for",
    "submodule.nested.active": "true",
    "submodule.nested.url": "file://{repo}/vendor/nested",
    "submodule.recurse": "false",
}
ATTRIBUTES = (
    "armed/** filter=x diff=x merge=x\narmed/*.y filter=y\narmed/*.lfs filter=lfs\n"
    "armed/plain filter=x !diff\narmed/*.t !filter diff=y\n*.crlf text eol=crlf\n"
)
MARKS = frozenset(
    name for text in (*SETTINGS.values(), *SETTINGS) for name in re.findall(r"\{([^{}]+)\}", text)
) - {"repo"}
HOOK: Mapping[str, str] = {name: f"hook-{name}" for name in HOOKS}  # to its mark
FAILING = "exit 1"
SCRIPTS: Mapping[str, str] = {
    **dict.fromkeys(("clean", "diff-filter", "lfs-clean", "lfs-smudge", "smudge"), "cat"),
    **dict.fromkeys(set(HOOK.values()) - {HOOK["fsmonitor-watchman"]}, "exit 0"),
    "process": "printf '0016git-filter-server\\n000eversion=2\\n00000000'\nexec cat > /dev/null",
    HOME_ONLY: 'exec "$@"',
}


def script_of(mark: str) -> str:
    """Return what a program does beside leaving its mark."""
    return SCRIPTS.get(mark, FAILING)
