"""What may be shown of the host, and what never is."""

import socket
from pathlib import Path

import pytest

from intake.taking_in import held, taken
from patchyard.domain.errors import UsageError
from patchyard.domain.project import Project
from patchyard.domain.resource import Resource
from patchyard.intake_mounts import MISSING, checked_includes, checked_mounts


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for name in ("home/.ssh", "home/data", "state", "checkout/node_modules", "checkout/.env"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "way").symlink_to(tmp_path / "home")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    listener.close()
    return tmp_path


def mounts(host: Path, *given: str) -> tuple[str, ...]:
    environ = {"HOME": str(host / "home"), "PATCHYARD_HOME": str(host / "state")}
    return checked_mounts(given, environ, str(host / "checkout"))


def test_a_mount_is_read_only_unless_said(host: Path) -> None:
    data = host / "home" / "data"
    assert mounts(host, str(data), f"{data}:rw") == (f"{data}:ro", f"{data}:rw")


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("/", "holds your home"),
        ("{}", "holds your home"),
        ("{}/home", "your home"),
        ("{}/way", "your home"),
        ("{}/home/.ssh", "keys and credentials"),
        ("{}/state", "the engine's state"),
        ("{}/checkout", "the source checkout"),
        ("{}/checkout/node_modules", "the source checkout"),
        ("{}/socket", "no sockets"),
        ("/dev/null", "no sockets or devices"),
        ("{}/socket/in", "is not there"),
    ],
)
def test_what_is_never_mounted_is_refused_with_the_reason(host: Path, place: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        mounts(host, place.format(host))


def test_a_mount_that_is_not_there_is_said_to_be_so(host: Path) -> None:
    with pytest.raises(UsageError, match=f"{host}/nothing is refused: it is not there") as refused:
        mounts(host, f"{host}/nothing:ro")
    assert refused.value.hint == MISSING
    (host / "dangling").symlink_to("gone")
    with pytest.raises(UsageError, match=f"dangling is refused: {host}/gone is not there"):
        mounts(host, str(host / "dangling"))


@pytest.mark.parametrize(
    ("kind", "place", "part"),
    [
        ("process", "/usr", "sandbox"),
        ("process", "/usr:ro", "sandbox"),
        ("process", "/proc/sys", "sandbox"),
        ("box", "/var/tmp", "container"),
        ("guest", "/usr", "virtual machine"),
    ],
)
def test_a_mount_that_would_hide_a_part_of_the_place_is_refused_before_it_starts(
    top: Path, kind: str, place: str, part: str
) -> None:
    box = Resource(name="box", type="container-instance", image="debian:12")
    guest = Resource(name="guest", type="vm-image", image="/images/guest")
    project = Project(name="p", repository=str(top), resources=("box", "guest"))
    holdings = held(project, resources={"box": box, "guest": guest})
    with pytest.raises(UsageError) as refused:
        taken(top, holdings, kind=kind, mounts=(place,))
    path = place.removesuffix(":ro")
    assert f"--mount {path} would stand in for a part of the {part}" in refused.value.message
    assert f"`--mount {path}/NAME`" in refused.value.hint


def test_a_mount_hides_nothing_where_the_machine_is_shown_as_it_is(top: Path) -> None:
    assert taken(top, kind="host", mounts=("/usr",)).spec.mounts == ("/usr:ro",)
    assert taken(top, kind="process", mounts=("/usr/share",)).spec.mounts == ("/usr/share:ro",)


def test_ignored_folders_come_along_by_name(host: Path) -> None:
    assert checked_includes(["node_modules/", "./node_modules"], str(host / "checkout")) == (
        "node_modules",
    )


@pytest.mark.parametrize(
    "name", ["..", "/etc", ".git", "", ".env", "nothing", "link", "node_modules/../.env", "id_rsa"]
)
def test_includes_never_leave_the_checkout_or_name_secrets(host: Path, name: str) -> None:
    (host / "checkout" / "link").symlink_to("/etc")
    with pytest.raises(UsageError, match="include"):
        checked_includes([name], str(host / "checkout"))
