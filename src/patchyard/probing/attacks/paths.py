"""Entries of a tree that lead out of it, or do more than lie there, when they are handed over."""

from patchyard.probing import aftermath
from patchyard.probing.attack import Attack, Evidence, Group, Where
from patchyard.probing.evidence import changed, device_made


def _entry(name: str, title: str, script: str, evidence: Evidence) -> Attack:
    return Attack(
        name=f"handed-{name}",
        group=Group.PATHS,
        title=title,
        script=script,
        evidence=evidence,
        where=Where.TREE,
    )


ATTACKS = (
    _entry("link", "have a link to a file outside followed", "link_out", aftermath.followed),
    _entry("through-link", "have a file written through a link", "through_link", changed),
    _entry("fifo", "have the engine wait at a pipe", "fifo", aftermath.unnoticed),
    _entry("device", "have a device carried", "device", device_made),
    _entry("setuid", "have a set-user-ID bit carried", "setuid", aftermath.setuid_carried),
    _entry("repository", "have a repository carried", "nested_git", aftermath.git_carried),
    _entry("settings", "have git's settings changed", "own_git", aftermath.settings_carried),
    _entry("runs-by-itself", "have it carried unseen what runs by itself", "runs_by_itself",
           aftermath.carried_unseen),
)  # fmt: skip

__all__ = ["ATTACKS"]
