"""What may be shown of the host, and what never is."""

import socket
from pathlib import Path

import pytest

from patchyard.domain.errors import UsageError
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
