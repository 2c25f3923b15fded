"""The disk that virtual machines start from: read-only, made once of this machine's programs.

Of Debian packages that are installed here and all they stand on, or of an archive that somebody
made. Nothing of /etc is taken but what `process` shows of it too.
"""

import errno
import hashlib
import lzma
import os
import re
import shutil
import stat
import subprocess
import tarfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from patchyard.clients.archives import unpack
from patchyard.clients.deaths import FREE_MEMORY, death
from patchyard.clients.walls import ETC, ETC_BEGINNINGS
from patchyard.domain.errors import EnvironmentUnavailable, UsageError

PACKAGES = (
    *("base-files", "bash", "ca-certificates", "coreutils", "dash", "diffutils", "file"),
    *("findutils", "git", "grep", "gzip", "hostname", "libc-bin", "make", "mawk", "ncurses-base"),
    *("patch", "perl-base", "procps", "python3", "python3-venv", "ripgrep", "sed", "tar"),
    *("util-linux", "xz-utils"),
)
"""Those of them that are installed here."""
NEEDED = ("bash", "coreutils", "python3")
LIST, ARCHIVE = "packages", "root.tar"  # what an image folder may hold
LEFT_OUT = ("/usr/share/doc", "/usr/share/info", "/usr/share/locale", "/usr/share/man")
MERGED = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
PROGRAMS = ("/usr/bin", "/usr/sbin")
CHECKED_BYTES = 1024 * 1024
SPARE_BYTES = 32 * 1024 * 1024
TOOL_PLACES = "/usr/sbin:/sbin:/usr/bin:/bin"
TOOL_TIMEOUT_S = 300.0
FIELDS = "${Package}\t${db:Status-Status}\t${Pre-Depends}, ${Depends}\t${Provides}\t${Version}\n"
PERMISSIONS = 0o777  # no setuid bit enters
BROKEN = (
    *(OSError, EOFError, ValueError, OverflowError),
    *(tarfile.TarError, zlib.error, lzma.LZMAError),
)
"""What tarfile raises where an archive is damaged, or ends within its packing."""


def disk_of(image: Path | None) -> "Packages | Archive":
    """Return what the disk of an image folder is made of; None: this machine's packages."""
    if image is not None and (image / ARCHIVE).is_file():
        return Archive(image / ARCHIVE)
    wanted: Sequence[str] = PACKAGES
    if image is not None and (image / LIST).is_file():
        wanted = (image / LIST).read_text(encoding="utf-8").split()
        if missing := [name for name in wanted if name not in _installed()]:
            raise UsageError(
                f"{image / LIST} names what is not installed here: {', '.join(missing)}",
                hint=f"apt install {' '.join(missing)}",
            )
    return Packages(wanted)


class Packages:
    """The files of packages of this machine."""

    def __init__(self, wanted: Sequence[str]) -> None:
        found = _installed()
        self._versions = {name: found[name].version for name in _closure((*NEEDED, *wanted), found)}
        if lacking := [name for name in NEEDED if name not in self._versions]:
            raise EnvironmentUnavailable(
                f"these packages are not installed: {', '.join(lacking)}",
                hint=f"apt install {' '.join(lacking)}",
            )

    @property
    def digest(self) -> str:
        """What tells this disk from another."""
        listed = "".join(f"{name} {version}\n" for name, version in sorted(self._versions.items()))
        return hashlib.sha256(listed.encode()).hexdigest()

    @property
    def said(self) -> str:
        """Of what it is made, for people."""
        return f"{len(self._versions)} Debian packages of this machine"

    def fill(self, folder: Path) -> None:
        """Put all its files into `folder`."""
        listed = _output("dpkg-query", "--listfiles", *self._versions).splitlines()
        wanted = (line for line in listed if line.startswith("/") and not _is_left_out(line))
        places = {_place(line) for line in wanted}
        places |= {link for link in _alternatives() if os.path.realpath(link) in places}
        sources = [Path(place) for place in places if place.endswith(".py")]
        places |= {str(source.parent / "__pycache__") for source in sources}
        for name in MERGED:
            if Path("/", name).is_symlink():
                (folder / name).symlink_to(Path("/", name).readlink())
        for place in sorted(places):
            _copy(Path(place), folder)
            if place.endswith("__pycache__") and Path(place).is_dir():
                for compiled in Path(place).iterdir():
                    _copy(compiled, folder)
        _copy_etc(folder)


class Archive:
    """A tar that somebody made: the whole tree of a system with Python as /usr/bin/python3."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def digest(self) -> str:
        """What tells this disk from another."""
        facts = self._path.stat()
        named = f"{self._path} {facts.st_size} {facts.st_mtime_ns}"
        return hashlib.sha256(named.encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def said(self) -> str:
        """Of what it is made, for people."""
        return str(self._path)

    def fill(self, folder: Path) -> None:
        """Put all its files into `folder`. Raises EnvironmentUnavailable."""
        try:
            with tarfile.open(self._path) as archive:
                unpack(archive, folder, spare_bytes=SPARE_BYTES)
                _read_to_the_end(archive)
        except BROKEN as error:
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise EnvironmentUnavailable(
                    f"{self._path} does not fit on the disk of {folder} once it is unpacked",
                    hint="free space there, or set PATCHYARD_HOME elsewhere",
                ) from error
            raise EnvironmentUnavailable(
                f"{self._path} cannot be unpacked: {error}", hint="make it anew"
            ) from error


def _read_to_the_end(archive: tarfile.TarFile) -> None:
    """Check the packing's checksum, which stands there. Raises one of BROKEN."""
    while archive.fileobj.read(CHECKED_BYTES):
        pass


class _Package:
    def __init__(self, depends: str, version: str) -> None:
        self.depends = [
            [re.split(r"[\s:(]", each.strip())[0] for each in group.split("|")]
            for group in depends.split(",")
        ]
        self.version = version


def _installed() -> Mapping[str, _Package]:
    """Return the installed packages, by their name and by what they stand in for."""
    found: dict[str, _Package] = {}
    provided: dict[str, _Package] = {}
    try:
        lines = _output("dpkg-query", "--show", f"--showformat={FIELDS}").splitlines()
    except EnvironmentUnavailable as error:
        raise EnvironmentUnavailable(
            "this machine has no Debian packages to make a virtual machine of",
            hint=f"name a folder with a {ARCHIVE} of a system: agents resource add vm-image NAME"
            " --image FOLDER",
        ) from error
    for line in lines:
        name, status, depends, provides, version = line.split("\t")
        if status == "installed":
            found[name] = _Package(depends, version)
            for other in provides.split(","):
                provided[other.split("(")[0].strip()] = _Package(name, version)
    return {**provided, **found}


def _closure(wanted: Iterable[str], found: Mapping[str, _Package]) -> list[str]:
    seen: set[str] = set()
    pending = [name for name in wanted if name in found]
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        for group in found[name].depends:
            pending += [each for each in group if each in found][:1]
    return sorted(name for name in seen if name)


def _output(*words: str) -> str:
    try:
        run = subprocess.run(
            words,
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=TOOL_TIMEOUT_S,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentUnavailable(f"{words[0]} does not run: {error}") from error
    return run.stdout.decode("utf-8", "surrogateescape")


def _is_left_out(line: str) -> bool:
    return line.startswith((*LEFT_OUT, "/etc/")) or line == "/etc" or not os.path.lexists(line)


def _place(line: str) -> str:
    """Return where it really lies: packages still say /bin where that is a link."""
    path = Path(line)
    return str(path.parent.resolve() / path.name)


def _alternatives() -> Iterable[str]:
    for folder in PROGRAMS:
        for path in Path(folder).iterdir():
            if path.is_symlink() and str(path.readlink()).startswith("/etc/alternatives/"):
                yield str(path)


def _copy_etc(folder: Path) -> None:
    (folder / "etc").mkdir(exist_ok=True)
    names = [path.name for path in Path("/etc").iterdir()]
    further = [name for name in names if name.startswith(ETC_BEGINNINGS)]
    for name in (*ETC, *further):
        path = Path("/etc", name)
        if path.is_dir() and not path.is_symlink():
            for inner in sorted(path.rglob("*")):
                _copy(inner, folder)
        else:
            _copy(path, folder)


def _copy(path: Path, folder: Path) -> None:
    """Copy one entry, as it is; what cannot be read, and devices, are left out."""
    target = folder / path.relative_to("/")
    try:
        status = path.lstat()
        target.parent.mkdir(parents=True, exist_ok=True)
        if stat.S_ISLNK(status.st_mode):
            target.symlink_to(path.readlink())
        elif stat.S_ISDIR(status.st_mode):
            target.mkdir(exist_ok=True)
            target.chmod(status.st_mode & PERMISSIONS)
        elif stat.S_ISREG(status.st_mode):
            shutil.copyfile(path, target)
            target.chmod(status.st_mode & PERMISSIONS)
            os.utime(target, ns=(status.st_mtime_ns, status.st_mtime_ns))
    except (FileExistsError, FileNotFoundError, PermissionError):
        return


def make_disk(folder: Path, file: Path) -> None:
    """Make a file system of what lies in `folder`. Raises EnvironmentUnavailable."""
    entries, size = 0, 0
    for place, folders, files in os.walk(folder):
        entries += len(folders) + len(files)
        size += sum(os.lstat(Path(place, name)).st_size // 4096 * 4096 + 4096 for name in files)
    kib = (size + size // 20 + entries * 512 + SPARE_BYTES) // 1024
    program = shutil.which("mke2fs", path=TOOL_PLACES)
    if program is None:
        raise EnvironmentUnavailable("mke2fs is not installed", hint="apt install e2fsprogs")
    run = subprocess.run(
        [
            *(program, "-q", "-F", "-t", "ext4", "-O", "^has_journal,^resize_inode", "-m", "0"),
            *("-N", str(entries + 1000), "-E", "root_owner=0:0", "-d", str(folder)),
            *(str(file), f"{kib}k"),
        ],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=TOOL_TIMEOUT_S,
        env={"PATH": os.defpath, "LC_ALL": "C"},
    )
    if words := death(run.returncode, _said(run.stderr)):
        raise EnvironmentUnavailable(f"mke2fs {words}", hint=FREE_MEMORY)
    if run.returncode != 0:
        raise EnvironmentUnavailable(
            f"the disk of the virtual machine cannot be made: {_said(run.stderr)}",
            hint="look whether the disk that holds PATCHYARD_HOME is full",
        )


def _said(output: bytes) -> str:
    """Return the end of what a program said, which may quote paths that are not UTF-8."""
    return output.decode("utf-8", "surrogateescape").strip()[-300:]


__all__ = ["ARCHIVE", "LIST", "NEEDED", "PACKAGES", "Archive", "Packages", "disk_of", "make_disk"]
