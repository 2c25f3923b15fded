"""`--allow-host`, `--secret` and their settings: who may say them, and what is refused."""

import os
import subprocess
from pathlib import Path

import pytest

from intake.taking_in import held, taken
from patchyard.clients.glimpse import glimpse
from patchyard.configuration import configure, repository_files
from patchyard.configuration import user_file as place_of_user_file
from patchyard.domain.errors import UsageError
from patchyard.domain.holdings import Holdings
from patchyard.domain.network import NetworkGrant
from patchyard.domain.network_settings import NetworkSettings
from patchyard.domain.project import Project
from patchyard.intake import Intake


def options(top: Path, *hosts: str, secrets: tuple[str, ...] = (), **more: str) -> NetworkGrant:
    """What a plan in `process` is granted."""
    made = taken(top, kind="process", allow_hosts=hosts, secrets=secrets, environ=more)
    return made.spec.network


def user_file(text: str) -> None:
    path = place_of_user_file(os.environ)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_nothing_said_is_nothing_granted(top: Path) -> None:
    assert not options(top)


def test_hosts_gateways_and_secrets_are_told_apart_and_spelled_out(top: Path) -> None:
    grant = options(top, "API.example.org", "index", secrets=("T@api.example.org",), T="value")
    assert grant == NetworkGrant(
        hosts=("api.example.org:443",),
        gateways=("index",),
        secrets=("T@api.example.org:443",),
    )


@pytest.mark.parametrize(
    ("hosts", "secrets", "message", "hint"),
    [
        (
            ("*.example.org",),
            (),
            "--allow-host '\\*.example.org' is no host name: there are no wildcards",
            "HOST",
        ),
        (("h.example:99999",), (), "--allow-host 'h.example:99999': '99999' is no port", "HOST"),
        (("user@h",), (), "--allow-host 'user@h' is not HOST", "10.1.2.3:8080"),
        (("shop=public",), (), "--allow-host =public is neither", "HOST=private"),
        (("index=public",), (), "--allow-host =public is neither", "HOST=private"),
        ((), ("token@",), "--secret 'token@' is not NAME@HOST", "NAME@HOST"),
        ((), ("UNSET_ONE@h.example",), "there is no variable UNSET_ONE here", "set UNSET_ONE"),
        (("git",), (), "--allow-host git: this repository has no remote named origin", "set-url"),
    ],
)
def test_a_mistake_is_wrong_usage_that_names_the_option(
    top: Path, hosts: tuple[str, ...], secrets: tuple[str, ...], message: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        options(top, *hosts, secrets=secrets)
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2


def test_the_walls_that_count_are_those_around_commands(top: Path) -> None:
    def commands_in(place: str) -> None:
        user_file(f"tools: {{execute_command: {{execution_environment: {place}}}}}\n")

    commands_in("host")
    with pytest.raises(UsageError, match="--allow-host means nothing there"):
        taken(top, kind="process", allow_hosts=("h.example",))
    commands_in("process")
    assert taken(top, kind="host", allow_hosts=("h.example",)).spec.network


@pytest.mark.parametrize("kind", ["host", "local"])
def test_where_no_walls_are_the_options_are_refused_and_settings_count_for_nothing(
    top: Path, kind: str
) -> None:
    with pytest.raises(UsageError, match="--allow-host means nothing there") as caught:
        taken(top, kind=kind, allow_hosts=("h.example",))
    assert "--in process" in caught.value.hint
    with pytest.raises(UsageError, match="--secret means nothing there"):
        taken(top, kind=kind, secrets=("T@h.example",), environ={"T": "x"})
    user_file("network: {allow_hosts: [h.example]}\nsecrets: [T@h.example]\n")
    assert not taken(top, kind=kind).spec.network


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("https://forge.example/team/shop.git", "https://forge.example/team/shop.git"),
        ("https://me:pw@forge.example:8443/shop", "https://forge.example:8443/shop"),
        ("http://10.0.0.7:3000/shop", "http://10.0.0.7:3000/shop"),
    ],
)
def test_the_repository_of_the_git_gateway_is_the_checkouts_own_origin_without_a_password(
    top: Path, address: str, kept: str
) -> None:
    subprocess.run(["git", "remote", "add", "origin", address], cwd=top, check=True)
    grant = options(top, "git=private")
    assert (grant.gateways, grant.repository, grant.repository_near) == (("git",), kept, "private")


@pytest.mark.parametrize(
    "address",
    ["git@forge.example:team/shop.git", "/srv/git/shop", "ssh://forge.example/x", "https://"],
)
def test_an_origin_that_did_not_come_by_http_is_refused(top: Path, address: str) -> None:
    subprocess.run(["git", "remote", "add", "origin", address], cwd=top, check=True)
    with pytest.raises(UsageError, match="did not come by http or https"):
        options(top, "git")


def repository(top: Path, text: str) -> None:
    (top / ".patchyard").mkdir()
    (top / ".patchyard" / "config.yaml").write_text(text)


SAID = "network: {allow_hosts: [evil.example], planning: true}\nsecrets: [HOME@evil.example]\n"


def test_a_repository_grants_nothing_until_it_is_trusted(top: Path) -> None:
    repository(top, SAID)
    made = taken(top, kind="process")
    assert not made.spec.network
    assert "until `agents trust`: network, secrets" in made.warnings[0]


def test_a_trusted_repository_names_hosts_and_secrets(top: Path) -> None:
    repository(top, SAID)
    made = _trusted(top)
    assert made.spec.network.hosts == ("evil.example:443",)
    assert made.spec.network.secrets == ("HOME@evil.example:443",)
    assert made.spec.network.planning


def _trusted(top: Path) -> Intake:
    files = repository_files(glimpse(top, None))
    return taken(top, Holdings(trusted={str(top): files.digest}), kind="process")


def test_each_part_comes_from_the_first_place_that_says_it(top: Path) -> None:
    user_file("network: {allow_hosts: [user.example], planning: true, max_plan_bytes: 1MiB}\n")
    project = Project(
        name="shop",
        repository=str(top),
        network=NetworkSettings(max_plan_bytes=7, max_connections=2),
        secrets=("T@p.example",),
    )
    grant = taken(top, held(project), kind="process", environ={"T": "x"}).spec.network
    assert (grant.hosts, grant.planning) == (("user.example:443",), True)
    assert (grant.max_plan_bytes, grant.max_connections) == (7, 2)
    assert grant.secrets == ("T@p.example:443",)
    grant = options(top, "option.example")
    assert (grant.hosts, grant.planning, grant.max_plan_bytes) == (
        ("option.example:443",),
        True,
        1024**2,
    )


def test_variables_say_it_too() -> None:
    found = configure(
        {"PATCHYARD_NETWORK": "{allow_hosts: [v.example]}", "PATCHYARD_SECRETS": "T@v.example"}
    )
    assert found.value("network.allow_hosts") == ("v.example",)
    assert found.values["network.allow_hosts"].origin == "PATCHYARD_NETWORK"
    assert found.value("secrets") == ("T@v.example",)
    with pytest.raises(UsageError, match=r"PATCHYARD_NETWORK: allow_hosts\[0\]|PATCHYARD_NETWORK"):
        configure({"PATCHYARD_NETWORK": "{allow_hosts: ['a@b']}"})


def test_the_hint_for_a_credential_names_the_way_that_hides_it(top: Path) -> None:
    with pytest.raises(UsageError, match="looks like a credential") as caught:
        taken(top, kind="process", variables=("API_TOKEN=x",))
    assert "--secret NAME@HOST" in caught.value.hint
