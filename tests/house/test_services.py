"""What `make test` sets up by itself, what it leaves out, and which floor then holds."""

import io
import os
import signal
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

import run_tests
import service_setup
from service_table import table
from services import CURES, PROBES

TEXT = "coverage_floor = 97.0\n[left_out]\ndocker = 1.5\nsshd = 0.5\n"


def test_each_service_says_how_to_get_it() -> None:
    assert CURES.keys() == PROBES.keys()


def test_what_is_left_out_is_told_with_the_reason_and_the_cure() -> None:
    shown = io.StringIO()
    Console(file=shown, width=120).print(table({"docker": "runs as user 1000"}))
    (row,) = [line.split("  ") for line in shown.getvalue().splitlines() if "docker" in line]
    assert [cell.strip() for cell in row if cell.strip()] == [
        "docker",
        "runs as user 1000",
        CURES["docker"],
    ]


@pytest.mark.parametrize(
    ("left_out", "floor"), [((), 97.0), (("docker", "go"), 95.5), (("docker", "sshd"), 95.0)]
)
def test_the_floor_is_that_of_what_ran(left_out: tuple[str, ...], floor: float) -> None:
    assert run_tests.floor(TEXT, left_out) == floor


def test_points_of_the_floor_belong_to_services() -> None:
    assert (
        run_tests.points(run_tests.FLOOR_FILE.read_text(encoding="utf-8")).keys() <= PROBES.keys()
    )


@pytest.mark.parametrize("asked", ["", "all", "none"])
def test_services_are_set_up_by_root_unless_they_are_refused(asked: str) -> None:
    assert service_setup.is_wanted({"SERVICES": asked}) == (os.geteuid() == 0 and asked != "none")


def test_a_wrong_choice_of_services_lists_the_right_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        service_setup.is_wanted({"SERVICES": "docker"})
    assert ended.value.code == 2
    assert "SERVICES=docker: there are all (the default) and none" in capsys.readouterr().err


def test_without_services_the_environment_is_handed_on_as_it_is() -> None:
    with service_setup.serving({"SERVICES": "none", "PATH": "/bin"}) as environment:
        assert environment == {"SERVICES": "none", "PATH": "/bin"}


def test_a_step_that_fails_is_told_and_the_rest_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert not service_setup.said("sh", "-c", "exit 3", what="the kernel")
    assert not service_setup.said("no-such-program", what="the engine")
    told = capsys.readouterr().err
    assert "the kernel could not be set up" in told
    assert "no-such-program" in told


def test_an_engine_that_was_started_is_ended_and_its_folder_removed(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    folder.mkdir()
    started = subprocess.Popen(["sleep", "600"])
    (folder / "pid").write_text(f"{started.pid}\n", encoding="ascii")
    (folder / "data").mkdir()
    service_setup.end(folder, patience_s=0)
    assert started.wait(timeout=60) == -signal.SIGTERM
    assert not folder.exists()
