"""Known holes of pinned packages: versions in order, lock files, advisories as OSV has them."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from patchyard.domain.advisories import advisories_of
from patchyard.domain.gate_findings import NothingToGoBy
from patchyard.domain.locked import locked_in
from patchyard.domain.versions import version_key
from patchyard.validators.advisories import AdvisoryScanner

ORDER = [
    *("0.9", "1.0.dev3", "1.0a1", "1.0-beta.2", "1.0-beta.11", "1.0rc1", "1.0", "1.0.post1"),
    *("1.0.1", "1.9", "1.10", "v2.0.0", "10"),
]


def test_versions_are_put_in_order() -> None:
    keys = [version_key(text) for text in ORDER]
    assert all(keys)
    assert keys == sorted(key for key in keys if key is not None)
    assert version_key("1.0+cuda") == version_key("1.0.0")
    assert version_key("latest") is None


NPM = """{
  "packages": {
    "node_modules/@a/b": {
      "version": "1.2.3",
      "resolved": ""
    },
    "node_modules/x/node_modules/y": {
      "version": "4.0.0"
"""
LOCKS = {
    "requirements-dev.txt": (
        "# pip-compile\nJinja2==3.1.2 \\\n    --hash=sha256:0\nflask[async] == 2.0 ; x\n-e .\n",
        [(2, "PyPI", "jinja2", "3.1.2"), (4, "PyPI", "flask", "2.0")],
    ),
    "sub/uv.lock": (
        '[[package]]\nname = "zope.interface"\nversion = "5.0"\n\n[x]\nversion = "9"\n',
        [(3, "PyPI", "zope-interface", "5.0")],
    ),
    "Cargo.lock": (
        '[[package]]\nname = "time"\nversion = "0.1.40"\n',
        [(3, "crates.io", "time", "0.1.40")],
    ),
    "package-lock.json": (
        NPM,
        [(4, "npm", "@a/b", "1.2.3"), (8, "npm", "y", "4.0.0")],
    ),
    "go.mod": (
        "module example.org/x\nrequire (\n\tgolang.org/x/text v0.3.7 // indirect\n)\n",
        [(3, "Go", "golang.org/x/text", "0.3.7")],
    ),
    "README.md": ("jinja2==1.0\n", []),
}


@pytest.mark.parametrize("path", sorted(LOCKS))
def test_a_lock_file_names_packages_by_line(path: str) -> None:
    text, expected = LOCKS[path]
    found = locked_in(path, dict(enumerate(text.split("\n"), 1)))
    assert [(each.line, each.ecosystem, each.package, each.version) for each in found] == expected


def osv(**more: Any) -> dict[str, Any]:
    events = [{"introduced": "0"}, {"fixed": "3.1.3"}, {"introduced": "4"}, {"fixed": "4.2"}]
    affected = {
        "package": {"ecosystem": "PyPI", "name": "Jinja2"},
        "ranges": [{"type": "ECOSYSTEM", "events": events}, {"type": "GIT", "events": [{}]}],
    }
    body = {"id": "GHSA-1", "summary": "attributes are not escaped", "affected": [affected]}
    return {**body, **more}


@pytest.mark.parametrize(
    ("version", "is_meant"),
    [("3.1.2", True), ("3.1.3", False), ("4.0rc1", False), ("4.1", True), ("odd", False)],
)
def test_a_range_says_which_versions_are_meant(version: str, *, is_meant: bool) -> None:
    (advisory,) = advisories_of(osv())
    assert advisory.means(version) is is_meant
    assert advisory.fixed == ("3.1.3", "4.2")


def test_last_affected_listed_and_withdrawn_versions() -> None:
    events = [{"introduced": "1"}, {"last_affected": "1.5"}, {"fixed": "odd"}]
    affected = {
        "package": {"ecosystem": "Debian:12", "name": "x"},
        "ranges": [{"events": events}],
        "versions": ["0-odd"],
    }
    (advisory,) = advisories_of({"id": "D", "affected": [affected, {"package": {}}, 7]})
    assert advisory.ecosystem == "Debian"
    assert [advisory.means(v) for v in ("1.5", "1.6", "0-odd")] == [True, False, True]
    assert advisories_of(osv(withdrawn="2024-01-01")) == advisories_of([]) == []


def scanned(home: Path, text: str = "jinja2==3.1.2\n") -> list[tuple[str, int, str, str, str]]:
    found = AdvisoryScanner(home).scan({"requirements.txt": dict(enumerate(text.split("\n"), 1))})
    return [(f.path, f.line, f.rule, str(f.severity), f.message) for f in found]


def test_documents_alone_and_packed_are_read_and_broken_ones_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "advisories"
    folder.mkdir()
    (folder / "broken.json").write_text("[" * 100_000)
    (folder / "one.json").write_text(json.dumps(osv(database_specific={"severity": "HIGH"})))
    with zipfile.ZipFile(folder / "PyPI.zip", "w") as archive:
        archive.writestr("two.json", json.dumps(osv(id="GHSA-2", summary="")))
        archive.writestr("notes.txt", "x")
    expected = "jinja2 3.1.2: attributes are not escaped; mended in 3.1.3, 4.2"
    unnamed = expected.replace("attributes are not escaped", "a known hole")
    assert scanned(tmp_path) == [
        ("requirements.txt", 1, "GHSA-2", "warning", unnamed),
        ("requirements.txt", 1, "GHSA-1", "error", expected),
    ]  # fmt: skip
    assert scanned(tmp_path, "jinja2==3.1.3\n") == []


def test_without_advisories_nothing_is_said_to_be_fine(tmp_path: Path) -> None:
    with pytest.raises(NothingToGoBy, match="no advisories in"):
        scanned(tmp_path)
    assert scanned(tmp_path, "# nothing is pinned\n") == []
    (tmp_path / "advisories").mkdir()
    (tmp_path / "advisories/PyPI.zip").write_text("no zip")
    with pytest.raises(NothingToGoBy, match="cannot be read"):
        scanned(tmp_path)
