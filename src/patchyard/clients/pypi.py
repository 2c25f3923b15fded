"""The Python simple index as data: pages read, put together and written again. No I/O.

Formats: PEP 503 (HTML), 691 and 700 (JSON), 592 (yanked), 658 and 714 (metadata files).
"""

import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from patchyard.toolbox.wire import loaded

JSON_TYPE = "application/vnd.pypi.simple.v1+json"
HTML_TYPE = "application/vnd.pypi.simple.v1+html"
ACCEPT = f"{JSON_TYPE}, {HTML_TYPE};q=0.2, text/html;q=0.1"
ARCHIVES = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".tgz")
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")

Linked = Callable[["FileLink"], str]


@dataclass(frozen=True, kw_only=True)
class FileLink:
    """One file of a project, wherever it lies."""

    filename: str
    url: str = field(repr=False)  # absolute, http(s) or file
    hashes: Mapping[str, str] = field(default_factory=dict)  # algorithm to hex digest
    requires_python: str | None = None
    yanked: str | bool = False
    metadata: Mapping[str, str] | bool = False  # hashes of the metadata file beside it
    size: int | None = None
    uploaded: str | None = None  # as the index writes it


class Unreadable(ValueError):
    """A page that is no simple index page."""


def normalised(name: str) -> str:
    """Return a project's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_page(body: bytes, *, content_type: str, url: str) -> list[FileLink]:
    """Return the files that a project page at `url` links. Raises Unreadable."""
    if content_type.partition(";")[0].strip().lower() in {JSON_TYPE, "application/json"}:
        return _read_json(body, url)
    return _read_html(body, url)


def _read_json(body: bytes, url: str) -> list[FileLink]:
    try:
        files = loaded(body)["files"]
        return [link for entry in files if (link := _json_link(entry, url))]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable("no JSON of a simple index") from error


def _json_link(entry: Mapping[str, Any], url: str) -> FileLink | None:
    metadata = entry.get("core-metadata", entry.get("dist-info-metadata", False))
    size = entry.get("size")
    return _checked(
        FileLink(
            filename=str(entry["filename"]),
            url=_joined(url, str(entry["url"])),
            hashes={str(k): str(v) for k, v in dict(entry.get("hashes") or {}).items()},
            requires_python=str(entry.get("requires-python") or "") or None,
            yanked=entry.get("yanked") or False,
            metadata=dict(metadata) if isinstance(metadata, Mapping) else bool(metadata),
            size=size if isinstance(size, int) else None,
            uploaded=entry.get("upload-time"),
        )
    )


class _Anchors(HTMLParser):
    """Collects the attributes of each link of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[dict[str, str | None]] = []
        self.base: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep `a` and the first `base`."""
        given = dict(attrs)
        if tag == "a" and given.get("href"):
            self.found.append(given)
        elif tag == "base" and self.base is None:
            self.base = given.get("href")


def _read_html(body: bytes, url: str) -> list[FileLink]:
    parser = _Anchors()
    parser.feed(body.decode("utf-8", "replace"))
    parser.close()
    base = _joined(url, parser.base) if parser.base else url
    return [link for given in parser.found if (link := _html_link(given, base))]


def _html_link(given: Mapping[str, str | None], base: str) -> FileLink | None:
    address, fragment = urldefrag(_joined(base, given["href"] or ""))
    metadata = given.get("data-core-metadata", given.get("data-dist-info-metadata", ""))
    yanked: str | bool = False
    if "data-yanked" in given:
        yanked = given["data-yanked"] or True
    return _checked(
        FileLink(
            filename=unquote(urlsplit(address).path).rpartition("/")[2],
            url=address,
            hashes=_hash(fragment),
            requires_python=given.get("data-requires-python") or None,
            yanked=yanked,
            metadata=_hash(metadata or "") or bool(metadata),
        )
    )


def _joined(base: str, address: str) -> str:
    """The absolute address, empty where there is none."""
    try:
        joined = urljoin(base, address)
        _ = urlsplit(joined).port
    except ValueError:
        return ""
    return joined


def _hash(text: str) -> dict[str, str]:
    match = re.match(r"(sha\d+|md5)=([0-9a-fA-F]+)", text)
    return {match[1]: match[2].lower()} if match else {}


def _checked(link: FileLink) -> FileLink | None:
    """The link itself, or None for what is no archive or would not be a plain file name."""
    name = link.filename
    is_plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+!-]*", name) is not None
    has_scheme = link.url.startswith(("http://", "https://", "file://"))
    return link if is_plain and has_scheme and name.lower().endswith(ARCHIVES) else None


def belongs(filename: str, project: str) -> bool:
    """Whether an archive of a flat folder is one of `project` (normalised)."""
    stem = filename
    for ending in ARCHIVES:
        if filename.lower().endswith(ending):
            stem = filename[: -len(ending)]
            break
    else:
        return False
    if filename.lower().endswith(".whl"):
        return normalised(stem.partition("-")[0]) == project
    return any(
        normalised(stem[: match.start()]) == project for match in re.finditer(r"-(?=\d)", stem)
    )


def merged(pages: Sequence[Sequence[FileLink]]) -> list[FileLink]:
    """Put the pages of several sources together; the same content is listed once."""
    seen: set[tuple[str, str]] = set()
    found = []
    for link in (link for page in pages for link in page):
        identity = (link.filename, link.hashes.get("sha256") or link.url)
        if identity not in seen:
            seen.add(identity)
            found.append(link)
    return found


def write_json(project: str, links: Sequence[FileLink], linked: Linked) -> bytes:
    """Return the page as JSON, each file at the address that `linked` gives."""
    page = {
        "meta": {"api-version": "1.0"},
        "name": project,
        "files": [_json_entry(link, linked(link)) for link in links],
    }
    return json.dumps(page).encode()


def _json_entry(link: FileLink, address: str) -> dict[str, Any]:
    """One file. Without `dist-info-metadata`, which older pips trip over (PEP 714)."""
    entry: dict[str, Any] = {
        "filename": link.filename,
        "url": address,
        "hashes": dict(link.hashes),
        "requires-python": link.requires_python,
        "yanked": link.yanked,
        "core-metadata": link.metadata,
        "size": link.size,
        "upload-time": link.uploaded,
    }
    return {key: value for key, value in entry.items() if value is not None}


def write_html(project: str, links: Sequence[FileLink], linked: Linked) -> bytes:
    """Return the page as HTML, each file at the address that `linked` gives."""
    rows = "\n".join(_html_row(link, linked(link)) for link in links)
    title = html.escape(project)
    meta = '<meta name="pypi:repository-version" content="1.0">'
    head = f"<!DOCTYPE html><html><head>{meta}<title>{title}</title></head>"
    return f"{head}<body>\n{rows}\n</body></html>\n".encode()


def _html_row(link: FileLink, address: str) -> str:
    attributes = {"href": address + _fragment(link.hashes)}
    if link.requires_python:
        attributes["data-requires-python"] = link.requires_python
    if link.yanked:
        attributes["data-yanked"] = link.yanked if isinstance(link.yanked, str) else ""
    if link.metadata:
        known = link.metadata if isinstance(link.metadata, Mapping) else {}
        value = _fragment(known)[1:] or "true"
        attributes["data-core-metadata"] = attributes["data-dist-info-metadata"] = value
    written = " ".join(f'{key}="{html.escape(value)}"' for key, value in attributes.items())
    return f"<a {written}>{html.escape(link.filename)}</a><br>"


def _fragment(hashes: Mapping[str, str]) -> str:
    for algorithm in ("sha256", "sha512", "sha384", *sorted(hashes)):
        if algorithm in hashes:
            return f"#{algorithm}={hashes[algorithm]}"
    return ""


__all__ = [
    "ACCEPT",
    "ARCHIVES",
    "HTML_TYPE",
    "JSON_TYPE",
    "NAME",
    "FileLink",
    "Linked",
    "Unreadable",
    "belongs",
    "merged",
    "normalised",
    "read_page",
    "write_html",
    "write_json",
]
