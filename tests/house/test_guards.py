"""What the suite itself promises about every test in it."""

import os
import socket
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fence import WorldReachedError
from services import absence
from timing import LARGER, require_linear


def test_a_socket_beyond_loopback_is_refused() -> None:
    with socket.socket() as reaching, pytest.raises(WorldReachedError):
        reaching.connect(("192.0.2.1", 80))


def test_a_name_beyond_loopback_is_refused() -> None:
    with socket.socket() as reaching, pytest.raises(WorldReachedError):
        reaching.connect_ex(("example.invalid", 80))


def test_loopback_is_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()[:2], timeout=60):
            taken, _peer = server.accept()
        taken.close()


@pytest.mark.parametrize("name", ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "PATCHYARD_HOME"])
def test_the_home_is_the_tests_own(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert Path(os.environ[name]).is_relative_to(tmp_path_factory.getbasetemp())
    assert list(Path(os.environ["HOME"]).iterdir()) == []


def test_nothing_of_the_users_environment_comes_along() -> None:
    assert not [name for name in os.environ if name.startswith(("PIP_", "NPM_", "SSH_", "AWS_"))]


def test_no_property_fails_because_the_machine_is_slow() -> None:
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check


def test_an_unknown_service_is_a_mistake() -> None:
    with pytest.raises(LookupError, match="there are bubblewrap"):
        absence("teapot")


def test_a_missing_service_skips_unless_it_is_required(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Path(__file__).parent.parent
    monkeypatch.setenv("PYTHONPATH", str(here.parent / "scripts"))
    for name in ("conftest.py", "fence.py", "leftovers.py", "ordinary.py", "services.py"):
        text = (here / name).read_text(encoding="utf-8")
        pytester.path.joinpath(name).write_text(text, encoding="utf-8")
    pytester.makepyfile(
        """
        import pytest, services
        services.PROBES["never"] = lambda: "it never is"

        @pytest.mark.service("never")
        def test_needs_it():
            pass
        """
    )
    plain = pytester.runpytest_subprocess("-rs", "-p", "no:randomly")
    plain.assert_outcomes(skipped=1)
    plain.stdout.fnmatch_lines(["*needs never: it never is*"])
    monkeypatch.setenv("REQUIRE_SERVICES", "other, never")
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(errors=1)


@pytest.mark.parametrize(
    ("power", "told"), [(1, nullcontext()), (2, pytest.raises(AssertionError))]
)
def test_work_that_grows_like_a_square_is_told_from_work_that_does_not(
    power: int, told: AbstractContextManager[object]
) -> None:
    steps = 600_000  # of the eighth

    def work(size: int) -> None:
        for _ in range(steps * size**power):
            pass

    with told:
        require_linear(work, LARGER)
