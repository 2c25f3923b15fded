"""Paths whose bytes in a checkout differ from their blob: line endings, ident, encodings, LFS.

Git's own conversions run on our view of the rules; a filter program of the user's never runs.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import replace

from patchyard.clients.git import Git
from patchyard.clients.reader import Reader
from patchyard.clients.treewriter import chunks_of, hash_blob, quote
from patchyard.domain.changeset import FilteredPair
from patchyard.workspaces.indexed import names_rules
from patchyard.workspaces.source import Source
from patchyard.workspaces.store import Store, fields, parts
from patchyard.workspaces.view import View

ATTRIBUTES = ("text", "eol", "ident", "filter", "working-tree-encoding")
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"


def in_checkout(shown: View, store: Store, changed: set[str]) -> dict[str, FilteredPair]:
    """Return the pairs of the checkout. `changed`: paths the index does not vouch for."""
    settings = shown.conversions
    names = "".join(f"{path}\0" for path in sorted(changed))
    if not (
        settings.get("core.autocrlf", "false").lower() in {"true", "input", "1", "yes", "on"}
        or shown.attributes
        or shown.indexed.has_attributes
        or names_rules(os.fsencode(names))
    ):
        return {}
    index = index_of(shown.listed())
    rules = rules_for(shown.git, sorted(index.keys() | changed), settings)
    doubtful = {path: how for path, how in rules.items() if may_convert(how, store.source)}
    return _pairs(shown, store, doubtful, changed, index)


def rules_for(
    git: Git, paths: Iterable[str], settings: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return, by path, the attributes that are set, with the settings that stand in for them."""
    asked = os.fsencode("".join(f"{path}\0" for path in paths))
    said = git.run("check-attr", "-z", "--stdin", *ATTRIBUTES, stdin=asked, cwd=git.work_tree)
    rules: dict[str, dict[str, str]] = {}
    each = fields(said)
    for path, name, value in zip(each, each, each, strict=True):
        if value != b"unspecified":
            rules.setdefault(os.fsdecode(path), {})[os.fsdecode(name)] = os.fsdecode(value)
    if settings.get("core.autocrlf", "false").lower() not in {"false", "0", "no", "off"}:
        for plain in paths:
            rules.setdefault(plain, {}).setdefault("text", "auto")
    return rules


def may_convert(how: Mapping[str, str], source: Source) -> bool:
    """Whether git could store other bytes than the checkout has, under these attributes."""
    if how.get("text", "unset") != "unset" or "eol" in how:
        return True
    if how.get("ident") == "set" or how.get("working-tree-encoding", "unset") != "unset":
        return True
    return driver(how, source) != ""


def driver(how: Mapping[str, str], source: Source) -> str:
    """Return the name of the filter that the user has set up for such a path; empty for none."""
    name = how.get("filter", "")
    known = (f"filter.{name}.{part}" in source.settings for part in ("clean", "smudge", "process"))
    return name if name and any(known) else ""


def _pairs(
    shown: View,
    store: Store,
    doubtful: Mapping[str, Mapping[str, str]],
    changed: set[str],
    index: Mapping[str, tuple[str, str]],
) -> dict[str, FilteredPair]:
    sizes = sizes_of(store.git, {index[path][1] for path in doubtful if path in index})
    pairs = {}
    to_clean: dict[str, str] = {}
    with Reader(store.source.top) as reader:
        for path, how in doubtful.items():
            status = reader.status(path)
            if status is None or not stat.S_ISREG(status.st_mode):
                continue
            mode, blob = index.get(path, ("", ""))
            name = driver(how, store.source)
            if path not in changed and not name and sizes.get(blob) == status.st_size:
                continue
            if path not in changed and not mode.startswith("100"):
                continue
            raw, pointer = _hashed(reader, path, store, is_lfs=name == "lfs")
            if path not in changed:
                normalised = blob
            elif name:
                normalised = pointer
            else:
                to_clean[path] = raw
                continue
            if normalised != raw:
                pairs[path] = FilteredPair(raw=raw, normalised=normalised)
    for path, normalised in _cleaned(shown, to_clean).items():
        if normalised != to_clean[path]:
            pairs[path] = FilteredPair(raw=to_clean[path], normalised=normalised)
    return pairs


def index_of(listed: bytes) -> dict[str, tuple[str, str]]:
    """Return mode and blob of each path of an index, as `ls-files --stage -z` says it."""
    found = {}
    for part in parts(listed):
        head, _, path = part.partition("\t")
        mode, blob, _ = head.split(" ")
        found[path] = (mode, blob)
    return found


def sizes_of(git: Git, blobs: set[str]) -> dict[str, int]:
    """Return the size of each blob the store has."""
    asked = "".join(f"{blob}\n" for blob in blobs if blob).encode()
    if not asked:
        return {}
    out = git.run("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=asked)
    rows = (line.split() for line in out.decode().splitlines())
    return {row[0]: int(row[1]) for row in rows if row[1] != "missing"}


def _hashed(reader: Reader, path: str, store: Store, *, is_lfs: bool) -> tuple[str, str]:
    """Return the raw id of a file and the id of its LFS pointer (empty unless it is one)."""
    like = store.like
    with reader.opened(path) as (descriptor, status):
        raw = hash_blob(status.st_size, chunks_of(descriptor, status.st_size), like=like)
        if not is_lfs:
            return raw, ""
        if os.pread(descriptor, len(LFS_POINTER), 0) == LFS_POINTER:
            return raw, raw
        digest = hashlib.sha256()
        for chunk in chunks_of(descriptor, status.st_size):
            digest.update(chunk)
    return raw, store.keep(lfs_pointer(digest.hexdigest(), status.st_size))


def lfs_pointer(sha256: str, size: int) -> bytes:
    """Return the pointer file for content of this hash and size (Git LFS specification v1)."""
    return LFS_POINTER + f"oid sha256:{sha256}\nsize {size}\n".encode()


def _cleaned(shown: View, paths: Mapping[str, str]) -> dict[str, str]:
    """Return what git would store for these files of the checkout; no driver is configured."""
    if not paths:
        return {}
    asked = b"".join(quote(path) + b"\n" for path in paths)
    converting = replace(shown.git, further=shown.conversions)
    out = converting.run("hash-object", "-w", "--stdin-paths", stdin=asked, cwd=shown.git.work_tree)
    return dict(zip(paths, out.decode().split(), strict=True))


__all__ = [
    "LFS_POINTER",
    "driver",
    "in_checkout",
    "index_of",
    "lfs_pointer",
    "may_convert",
    "rules_for",
    "sizes_of",
]
