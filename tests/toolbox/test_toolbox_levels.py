"""What a policy of words would say of a command line; it refuses nothing."""

import pytest

from patchyard.toolbox.levels import level_of


@pytest.mark.parametrize(
    ("command", "level"),
    [
        ("ls -l src | sort", "SAFE"),
        ("cd src && grep -rn 'x' .", "SAFE"),
        ("LANG=C /bin/cat a.txt", "SAFE"),
        ("pytest -q", "APPROVAL_REQUIRED"),
        ("echo x > a.txt", "APPROVAL_REQUIRED"),
        ("find . -delete", "APPROVAL_REQUIRED"),
        ("cd src && cat ../a.txt", "APPROVAL_REQUIRED"),
        ("cat src/../a.txt", "SAFE"),
        ("cat '../outside'", "BLOCKED"),
        ("rm -rf build", "APPROVAL_REQUIRED"),
        ("sudo true", "BLOCKED"),
        ("a; sudo b", "BLOCKED"),
        ("true && env X=1 nohup /usr/bin/ssh host", "BLOCKED"),
        ("echo $(su -)", "BLOCKED"),
        ("mkfs.ext4 /dev/sda", "BLOCKED"),
        ("if true; then shutdown now; fi", "BLOCKED"),
        ("rm -rf /", "BLOCKED"),
        ("rm -v -fr / --no-preserve-root", "BLOCKED"),
        ("cat /proc/1/mem", "BLOCKED"),
        ("ls /sys/kernel", "BLOCKED"),
        ("cat a\0b", "BLOCKED"),
        (". ./activate", "BLOCKED"),
    ],
)
def test_every_command_of_a_line_counts(command: str, level: str) -> None:
    assert level_of(command) == level


@pytest.mark.parametrize("piece", ["rm -r ", "-r", "../", "a;", "'", "/proc/", "X=", "$("])
def test_a_line_of_the_greatest_length_takes_no_time(piece: str) -> None:
    assert level_of(piece * (120_000 // len(piece)))
