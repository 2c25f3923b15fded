from dataclasses import replace

import pytest

from patchyard.clients.obstacles import Obstacles, diagnose, read_obstacles

FREE = Obstacles(is_root=False, is_container=False, has_apparmor_rule=False, allows_namespaces=True)
REFUSED = "bwrap: setting up uid map: Permission denied"


@pytest.mark.parametrize(
    ("said", "facts", "cause", "cure"),
    [
        (REFUSED, replace(FREE, has_apparmor_rule=True), "AppArmor", "bwrap-userns-restrict"),
        (
            "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
            replace(FREE, has_apparmor_rule=True),
            "AppArmor",
            "apparmor_parser",
        ),
        (
            "bwrap: No permissions to create new namespace, ... Operation not permitted",
            replace(FREE, allows_namespaces=False),
            "switched off",
            "max_user_namespaces",
        ),
        (REFUSED, replace(FREE, is_container=True), "container", "--cap-add SYS_ADMIN"),
        (
            "bwrap: Creating new namespace failed: Operation not permitted",
            replace(FREE, is_root=True, is_container=True),
            "container",
            "--in host",
        ),
        (
            "bwrap: Creating new namespace failed: Operation not permitted",
            replace(FREE, is_root=True),
            "root",
            "CAP_SYS_ADMIN",
        ),
        (REFUSED, FREE, "this user", "user namespaces"),
        ("bwrap: Can't mkdir /opt/x: Read-only file system", FREE, "mount", "folder"),
        ("", FREE, "said nothing", "doctor"),
    ],
)
def test_each_obstacle_has_its_cause_and_its_narrow_cure(
    said: str, facts: Obstacles, cause: str, cure: str
) -> None:
    diagnosis = diagnose(said, facts)
    assert cause in diagnosis.cause
    assert cure in diagnosis.cure
    assert "apparmor_restrict_unprivileged_userns=0" not in diagnosis.cure


def test_what_bubblewrap_said_stays_in_the_cause() -> None:
    assert REFUSED in diagnose(REFUSED, FREE).cause


def test_a_traceback_of_the_toolbox_is_told_by_its_exception_and_is_no_obstacle() -> None:
    frames = 'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
    diagnosis = diagnose(f"{frames}OSError: [Errno 5] Input/output error\n", FREE)
    assert diagnosis.cause == "the sandbox did not start: OSError: [Errno 5] Input/output error"
    assert diagnosis.has_broken
    assert diagnose("", FREE).has_broken
    assert not diagnose("bwrap: execvp python3: No such file or directory", FREE).has_broken


def test_the_machine_is_read_from_its_switches() -> None:
    files = {
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
        "/proc/sys/user/max_user_namespaces": "0\n",
        "/run/systemd/container": "lxc",
    }
    facts = read_obstacles(lambda path: files.get(path, ""))
    assert facts.has_apparmor_rule
    assert facts.is_container
    assert not facts.allows_namespaces
