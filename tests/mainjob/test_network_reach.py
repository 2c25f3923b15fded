"""The main job with a host that was allowed and a secret, by the command line, in each kind."""

import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from images import WITH_PYTHON, image
from mainjob.driver import LONGEST_S, Desk, finish, git, shell
from models.certificates import served_as
from network.hosts import Host, hosting

pytestmark = [pytest.mark.service("bubblewrap")]

TOKEN = "t0ken-of-the-tests-0123456789"
GET = """
import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())
except OSError as error:
    print("failed:", error)
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    certificate, context = served_as("localhost", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("HOUSE_TOKEN", TOKEN)
    assert isinstance(context, ssl.SSLContext)
    with hosting(context) as made:
        made.say("/api", b"from the house")
        yield made


def prepared(desk: Desk, host: Host, *options: str) -> list[str]:
    (desk.repo / "get.py").write_text(GET)
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "how to ask")
    script = desk.script(
        shell(f"python3 get.py http://{host.place}/api > answer.txt"),
        shell("python3 get.py http://other.invalid/api > refused.txt; env > environment.txt"),
        finish("done"),
    )
    secret = f"HOUSE_TOKEN@{host.place}"
    return ["run", "ask", "--model", f"scripted:{script}", "--secret", secret, *options]


def checked(desk: Desk, host: Host) -> None:
    """What came of the plan is the host's own answer, and the token is nowhere of it."""
    diff = desk.agents("plan", "diff", "@last", is_json=False).out.decode()
    assert "+from the house" in diff
    assert "+failed: HTTP Error 403: other.invalid:443 is not allowed this way" in diff
    assert [seen.headers["authorization"] for seen in host.seen] == [f"Bearer {TOKEN}"]
    data = desk.agents("plan", "status", "@last").data
    network = data["reach"]["network"]
    assert (network["attempts"], network["refused"]) == (2, 1)
    assert data["reach"]["secrets"] == [f"HOUSE_TOKEN@{host.place}"]
    events = desk.agents("plan", "events", "@last").out.decode()
    assert "other.invalid" in events
    for told in (diff, repr(data), events):
        assert TOKEN not in told


def test_a_plan_in_process_uses_a_secret_and_shows_where_it_went(desk: Desk, host: Host) -> None:
    done = desk.agents(*prepared(desk, host), is_json=False)
    shown = done.out.decode()
    assert done.code == 0, done.err
    assert f"network: {host.place} (can upload), 2 requests (" in shown
    assert "1 of them without success" in shown
    assert f"secrets: HOUSE_TOKEN@{host.place}" in shown
    assert TOKEN not in shown + done.err
    followed = desk.agents("plan", "events", "@last", "--follow", is_json=False)
    assert f"network: {host.place} 1 request\n" in followed.err
    assert "network: other.invalid:443 1 request (1 not)" in followed.err
    checked(desk, host)


def test_a_shell_reaches_what_its_plan_was_granted_and_that_is_told(desk: Desk, host: Host) -> None:
    assert desk.agents(*prepared(desk, host, "--limit", "network=20K")).code == 0
    host.say("/large", b"x" * 40_000)
    lines = [
        f"python3 get.py http://{host.place}/api",
        "python3 get.py http://other.invalid/api",
        f"python3 get.py http://{host.place}/large | wc -c",
        f"python3 get.py http://{host.place}/api",
    ]
    shown = subprocess.run(
        [sys.executable, "-m", "patchyard", "plan", "shell"],
        cwd=desk.repo,
        env=desk.environ,
        input="\n".join(lines).encode(),
        capture_output=True,
        timeout=LONGEST_S,
        check=False,
    )
    said = shown.stdout.decode().splitlines()
    assert said[0] == "from the house", shown.stderr
    assert said[1].startswith("failed: HTTP Error 403: other.invalid:443 is not allowed")
    assert "HTTP Error 403: the limit `network` was reached" in said[-1]
    assert b"the limit `network` was reached" in shown.stderr
    data = desk.agents("plan", "status", "@last").data
    assert data["reach"]["network"]["attempts"] == 2 + len(lines)
    assert TOKEN.encode() not in shown.stdout + shown.stderr


@pytest.mark.parametrize(
    "runtime",
    [
        pytest.param("runc", marks=pytest.mark.service("docker")),
        pytest.param("runsc", marks=pytest.mark.service("runsc")),
        pytest.param("runsc-systrap", marks=pytest.mark.service("runsc-systrap")),
    ],
)
def test_a_plan_in_a_container_uses_a_secret_too(desk: Desk, host: Host, runtime: str) -> None:
    desk.agents("project", "create", "shop")
    words = ["--image", image(WITH_PYTHON), "--runtime", runtime]
    assert desk.agents("resource", "add", "container-instance", "box", *words).code == 0
    desk.agents("project", "link-resource", "shop", "box")
    done = desk.agents(*prepared(desk, host, "--in", "container"))
    assert done.code == 0, done.message
    checked(desk, host)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--secret", "UNSET_ONE@h.example"), "there is no variable UNSET_ONE here"),
        (("--secret", "HOUSE_TOKEN"), "--secret 'HOUSE_TOKEN' is not NAME@HOST"),
        (("--allow-host", "*.example.org"), "--allow-host '*.example.org' is no host name"),
        (("--allow-host", "h.example", "--in", "host"), "--allow-host means nothing there"),
    ],
)
def test_what_cannot_be_granted_is_wrong_usage(
    desk: Desk, options: tuple[str, ...], said: str
) -> None:
    refused = desk.agents("run", "x", "--agent", "recipe", *options)
    assert (refused.code, said in refused.message) == (2, True), refused.message


def test_the_help_of_run_names_both_options(desk: Desk) -> None:
    told = desk.agents("run", "--help", is_json=False).out.decode()
    assert "--allow-host" in told
    assert "--secret" in told


def test_a_project_says_it_for_all_its_plans(desk: Desk, host: Host) -> None:
    desk.agents("project", "create", "shop")
    said = desk.agents("project", "context", "set", "network", f"{{allow_hosts: ['{host.place}']}}")
    assert said.data["context"]["network"] == {"allow_hosts": [host.place]}
    desk.agents("project", "context", "set", "secrets", f"[HOUSE_TOKEN@{host.place}]")
    shown = desk.agents("project", "context", "show").data["context"]
    assert shown["secrets"] == [f"HOUSE_TOKEN@{host.place}"]
    origin = desk.agents("config", "show", "--origin").data
    assert "project shop" in repr(origin)
    wrong = desk.agents("project", "context", "set", "network", "{allow_hosts: ['a@b']}")
    assert (wrong.code, "network.allow_hosts[0]" in wrong.message) == (2, True), wrong.message
