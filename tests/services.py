"""What a test may need of the machine, and how one finds out whether it is there.

Each probe really uses the service; its answer is kept for the session. None means that it is
there, a text says why it is not.
"""

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import patchyard
from patchyard.clients import cgroups
from patchyard.clients.guest_kernels import find_kernel
from patchyard.domain.environment import Limits
from patchyard.domain.errors import EnvironmentUnavailable

__all__ = [
    "CURES",
    "MAVEN",
    "MAVEN_PLUGINS",
    "PROBES",
    "PUBLISHED",
    "REAL_ENVIRONMENT",
    "SBIN",
    "absence",
    "is_required",
    "kernel_folder",
    "need",
    "ordinary_python",
    "python",
    "rustup",
]

#: The environment before the suite cleaned it.
REAL_ENVIRONMENT = dict(os.environ)

#: Where servers lie, which an ordinary user's PATH may not name.
SBIN = "/usr/sbin:/usr/local/sbin:/sbin"

#: Where Debian keeps what Maven needs: libsurefire-java, junit4 and others.
MAVEN = Path("/usr/share/maven-repo")
MAVEN_PLUGINS = ("maven-compiler-plugin", "maven-resources-plugin", "maven-surefire-plugin")

#: Vendors' descriptions of their interfaces, which are not ours to ship.
PUBLISHED = Path(
    REAL_ENVIRONMENT.get("PATCHYARD_PUBLISHED", Path(__file__).parents[2] / "shared/published")
)


def _fails(*command: str, timeout_s: float = 60) -> str | None:
    """Why a command does not work, or None where it does."""
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not installed"
    try:
        run = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            env=REAL_ENVIRONMENT,
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not answer within {timeout_s:g} s"
    if run.returncode == 0:
        return None
    said = (run.stderr.strip() or run.stdout.strip() or "no message").splitlines()[-1]
    return f"{command[0]} failed: {said[:200]}"


def _said(*command: str) -> str:
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=60, env=REAL_ENVIRONMENT
    ).stdout


@functools.cache
def python(version: str) -> str | None:
    """A Python of that version on this machine, under pyenv or on the PATH."""
    home = Path(REAL_ENVIRONMENT.get("HOME", "/nonexistent"))
    kept = sorted(home.glob(f".pyenv/versions/{version}*/bin/python{version}"))
    for candidate in [*map(str, kept), f"python{version}"]:
        if _fails(candidate, "-c", "import ssl") is None:
            return shutil.which(candidate)
    return None


def _no_python(version: str) -> str | None:
    return None if python(version) else f"no Python {version} on the PATH or under pyenv"


def _newer_node() -> str | None:
    """Whether Node has what the public packages of today ask for."""
    major = "parseInt(process.versions.node)"
    script = f"if ({major} < 20) {{ console.error('it is ' + process.version); process.exit(1) }}"
    return _fails("node", "--eval", script)


def _overlay() -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        script = (
            f"cd {folder} && mkdir l u w m && "
            "mount -t overlay none -o lowerdir=l,upperdir=u,workdir=w m && touch m/written"
        )
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        return _fails("unshare", *user, "--mount", "sh", "-c", script)


def _docker() -> str | None:
    if os.geteuid() != 0:
        return "tests of containers make images of files that only root may read"
    return _fails("docker", "version")


def _runtime(name: str) -> str | None:
    """Whether the engine of the tests knows a runtime; that it really starts is what they show."""
    if missing := _docker():
        return missing
    known = _said("docker", "info", "--format", "{{range $name, $_ := .Runtimes}}{{$name}} {{end}}")
    return None if name in known.split() else f"the container engine knows no runtime {name}"


def _podman() -> str | None:
    return _root() or _fails("podman", "--version")


def _pypi() -> str | None:
    return _fails(sys.executable, "-m", "pip", "index", "versions", "six", timeout_s=120)


def _npm() -> str | None:
    return _fails("npm", "view", "left-pad", "version", timeout_s=120)


def _network_namespaces() -> str | None:
    return _root() or _fails("unshare", "--net", "ip", "link", "set", "lo", "up")


def _root() -> str | None:
    return None if os.geteuid() == 0 else f"runs as user {os.geteuid()}"


@functools.cache
def ordinary_python() -> tuple[str, ...]:
    """How a Python with this package is started by anybody; empty where none can be.

    A closed home may lie around ours: then it is the system's, of the same version.
    """
    ours = (sys.executable,)
    if os.geteuid() != 0 or _runs_for_nobody(ours):
        return ours
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    packages = [str(Path(patchyard.__file__).parents[1]), sysconfig.get_path("purelib")]
    other = ("env", f"PYTHONPATH={os.pathsep.join(packages)}", f"/usr/bin/python{version}")
    return other if _runs_for_nobody(other) else ()


def _runs_for_nobody(python: Sequence[str]) -> bool:
    words = [*python, "-c", "import patchyard.cli.main, click"]
    try:
        run = subprocess.run(
            words, check=False, capture_output=True, user=65534, group=65534, extra_groups=[]
        )
    except OSError:
        return False
    return run.returncode == 0


def _ordinary_user() -> str | None:
    return None if ordinary_python() else f"user 65534 can start no Python like {sys.executable}"


def _control_groups() -> str | None:
    own = Path("/proc/self/cgroup").read_text(encoding="utf-8")
    group = cgroups.make_group(f"patchyard-probe-{os.getpid()}", Limits(), membership=own)
    try:
        return None if cgroups.freeze(group) else "no control group can be made that freezes"
    finally:
        cgroups.thaw(group)
        cgroups.remove_group(group)


def _fuse() -> str | None:
    """Whether a file system of our own can be mounted; it is gone with its mount namespace."""
    options = "fd=3,rootmode=40000,user_id=0,group_id=0"
    mounting = f"exec 3<>/dev/fuse && mount -i -t fuse -o {options} probe /mnt"
    return _fails("unshare", "--mount", "sh", "-c", mounting)


def kernel_folder() -> str:
    """The folder of a kernel for virtual machines, as a vm-image names it; empty: `/`."""
    return REAL_ENVIRONMENT.get("PATCHYARD_VM_IMAGE", "")


def _qemu() -> str | None:
    folder = kernel_folder()
    try:
        kernel = find_kernel(Path(folder or "/"))
    except EnvironmentUnavailable as error:
        return error.message
    if kernel is None:
        where = f"{folder or '/'}; `scripts/guest_kernel.sh FOLDER` gets one"
        return f"no kernel in {where}, PATCHYARD_VM_IMAGE names the folder"
    return _fails("qemu-system-x86_64", "--version") or _fails("bwrap", "--version")


def _busybox() -> str | None:
    """Whether there is one that needs no library."""
    found = _fails("busybox", "true")
    return found if found or _fails("ldd", "/bin/busybox") else "it needs libraries"


def _rust() -> str | None:
    """Whether there is a toolchain that clippy and rustfmt are part of."""
    programs = ("cargo", "cargo-clippy", "rustfmt")
    return next(filter(None, (_fails(name, "--version") for name in programs)), None)


@functools.cache
def rustup() -> Path | None:
    """Where rustup keeps its toolchains; None where Rust was installed without it."""
    toolchain = Path(_said("rustc", "--print", "sysroot").strip())
    return toolchain.parents[1] if toolchain.parent.name == "toolchains" else None


def _maven() -> str | None:
    """Whether Maven can compile and test with what Debian has of it, without a network."""
    wanted = ("junit/junit/4.x", *(f"org/apache/maven/plugins/{name}" for name in MAVEN_PLUGINS))
    absent = next((name for name in wanted if not (MAVEN / name).exists()), None)
    return f"there is no {MAVEN / absent}" if absent else _fails("mvn", "-v")


def _published() -> str | None:
    there = (PUBLISHED / "openai-api.json").is_file()
    return None if there else f"none in {PUBLISHED}; PATCHYARD_PUBLISHED names the folder"


def _sshd() -> str | None:
    """Whether an SSH server of our own can be started; its users are made up for it alone."""
    if os.geteuid() != 0:
        return "an SSH server for made-up users needs root"
    if shutil.which("sshd", path=SBIN) is None:
        return "sshd is not installed"
    return _fails("unshare", "--mount", "mount", "-t", "tmpfs", "none", "/run")


PROBES: dict[str, Callable[[], str | None]] = {
    "bubblewrap": lambda: _fails("bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"),
    "busybox": _busybox,
    "c-compiler": lambda: _fails("cc", "--version"),
    "control-groups": _control_groups,
    "devcontainers-cli": lambda: _fails("devcontainer", "--version"),
    "docker": _docker,
    "fuse": _fuse,
    "go": lambda: _fails("go", "version"),
    "jdk": lambda: _fails("javac", "-version"),
    "loop-devices": lambda: _fails("losetup", "--find"),
    "maven": _maven,
    "mount": lambda: _fails("mount", "--version"),
    "mke2fs": lambda: None if shutil.which("mke2fs", path=SBIN) else "mke2fs is not installed",
    "network-namespaces": _network_namespaces,
    "node": lambda: _fails("node", "--version"),
    "node-20": _newer_node,
    "npm-index": _npm,
    "ordinary-user": _ordinary_user,
    "overlay": _overlay,
    "podman": _podman,
    "published-schemas": _published,
    "pypi-index": _pypi,
    "qemu": _qemu,
    "python3.8": lambda: _no_python("3.8"),
    "python3.13": lambda: _no_python("3.13"),
    "ripgrep": lambda: _fails("rg", "--version"),
    "root": _root,
    "runsc": lambda: _runtime("runsc"),
    "runsc-current": lambda: _runtime("runsc-current"),
    "runsc-systrap": lambda: _runtime("runsc-systrap"),
    "rust": _rust,
    "sshd": _sshd,
    "user-namespaces": lambda: _fails("unshare", "--user", "true"),
}

_AS_ROOT = "`make test` as root installs and starts it"
_GVISOR = f"{_AS_ROOT}, where `go` is as new as scripts/gvisor/go.mod says"
#: How to get each service.
CURES = {
    "bubblewrap": "apt-get install bubblewrap, and user namespaces for ordinary users",
    "busybox": "apt-get install busybox-static",
    "c-compiler": "apt-get install gcc libc6-dev",
    "control-groups": "run as root where the control groups can be written",
    "devcontainers-cli": _AS_ROOT,
    "docker": _AS_ROOT,
    "fuse": "run as root with /dev/fuse",
    "go": "apt-get install golang-go",
    "jdk": "apt-get install default-jdk-headless",
    "loop-devices": "run as root with /dev/loop-control",
    "maven": "apt-get install maven junit4 libsurefire-java",
    "mke2fs": "apt-get install e2fsprogs",
    "mount": "apt-get install mount",
    "network-namespaces": "run as root; apt-get install iproute2",
    "node": "apt-get install nodejs",
    "node-20": "Node 20 or newer; Debian 12 has 18",
    "npm-index": "apt-get install npm; an index that `npm view` reaches",
    "ordinary-user": "run as root, in a folder that others can read, with the system's Python",
    "overlay": "run as root, or on a kernel with overlays for ordinary users (5.11)",
    "podman": _AS_ROOT,
    "published-schemas": "name the folder in PATCHYARD_PUBLISHED",
    "pypi-index": "an index that `pip index versions` reaches",
    "python3.8": "install Python 3.8, for instance with pyenv",
    "python3.13": "install Python 3.13, for instance with pyenv",
    "qemu": f"{_AS_ROOT}; else qemu-system-x86, bubblewrap and `scripts/guest_kernel.sh FOLDER`",
    "ripgrep": "apt-get install ripgrep",
    "root": "run as root",
    "runsc": f"{_AS_ROOT}, where Debian has it",
    "runsc-current": _GVISOR,
    "runsc-systrap": _GVISOR,
    "rust": "cargo, clippy and rustfmt, for instance with rustup",
    "sshd": _AS_ROOT,
    "user-namespaces": "a kernel that lets ordinary users make them",
}


@functools.cache
def absence(name: str) -> str | None:
    """Why a service is not there, or None; an unknown name is a mistake of the test."""
    if name not in PROBES:
        raise LookupError(f"no service {name!r}; there are {', '.join(sorted(PROBES))}")
    return PROBES[name]()


def is_required(name: str) -> bool:
    """Whether a test fails without the service, rather than being skipped."""
    return name in REAL_ENVIRONMENT.get("REQUIRE_SERVICES", "").replace(" ", "").split(",")


def need(name: str) -> None:
    """Skip the running test without the service; fail it where REQUIRE_SERVICES names that."""
    why = absence(name)
    if why is None:
        return
    if is_required(name):
        pytest.fail(f"REQUIRE_SERVICES names {name}, but {why}", pytrace=False)
    pytest.skip(f"needs {name}: {why}")
