"""Rules of hosts, secrets by place, and what a grant of them lets pass."""

import ipaddress

import pytest

from patchyard.domain.addresses import Misnamed, nearness
from patchyard.domain.faults import Fault
from patchyard.domain.network import (
    NetworkGrant,
    instructions,
    is_plain_path,
    rule_of,
    secret_of,
    told,
)
from patchyard.domain.network_settings import network_of, secrets_of
from patchyard.domain.permits import Permits
from patchyard.domain.traffic import Attempt, Traffic, spent, summed, traffic_of


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("API.example.org", "api.example.org:443"),
        ("api.example.org:8443", "api.example.org:8443"),
        ("example.org:80", "example.org:80"),
        ("http://example.org", "example.org:80"),
        ("http://build.lan:3000=private", "http://build.lan:3000=private"),
        ("https://example.org:8080", "example.org:8080"),
        ("localhost:3000", "localhost:3000"),
        ("git.lan=private", "git.lan:443=private"),
        ("db.lan=loopback", "db.lan:443=loopback"),
        ("[::1]:9", "[::1]:9"),
        ("api.example.org/v1", "GET,HEAD api.example.org:443/v1"),
        ("POST,GET api.example.org/v1/", "GET,POST api.example.org:443/v1/"),
        ("GET api.example.org", "GET api.example.org:443"),
    ],
)
def test_a_rule_has_one_spelling_that_means_the_same(text: str, spelled: str) -> None:
    assert str(rule_of(text)) == spelled
    assert rule_of(spelled) == rule_of(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("*.example.org", "no host name"),
        ("ftp://example.org", "not HOST"),
        ("user@example.org", "not HOST"),
        ("2130706433", "four decimal numbers"),
        ("0.0.0.0", "no address that one can reach"),
        ("224.0.0.1", "no address that one can reach"),
        ("example.org=public", "neither =private nor =loopback"),
        ("example.org=link-local", "neither =private nor =loopback"),
        ("10.0.0.1=private", "an address says itself"),
        ("TRACE example.org", "none of DELETE"),
        ("example.org/a/../b", "no plain path"),
        ("example.org/a%2fb", "no plain path"),
        ("bücher.example", "ASCII form"),
        ("", "not HOST"),
    ],
)
def test_what_is_no_rule_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(Misnamed, match=said):
        rule_of(text)


@pytest.mark.parametrize(
    ("rule", "addresses"),
    [
        ("example.org", {"93.184.216.34"}),
        ("example.org=private", {"93.184.216.34", "10.0.0.1"}),
        ("example.org=loopback", {"93.184.216.34", "127.0.0.1"}),
        ("localhost", {"93.184.216.34", "127.0.0.1"}),
        ("10.0.0.1", {"93.184.216.34", "10.0.0.1", "127.0.0.1", "169.254.169.254"}),
    ],
)
def test_a_name_leads_to_public_addresses_and_to_what_is_said(
    rule: str, addresses: set[str]
) -> None:
    every = ("93.184.216.34", "10.0.0.1", "127.0.0.1", "169.254.169.254", "224.0.0.1")
    found = rule_of(rule)
    assert {a for a in every if found.leads_to(nearness(ipaddress.ip_address(a)))} == addresses


def test_a_secret_names_its_variable_its_scheme_and_its_host() -> None:
    secret = secret_of("basic:TOKEN@git.example.org")
    assert (secret.name, secret.scheme, secret.rule.place) == (
        "TOKEN",
        "basic",
        "git.example.org:443",
    )
    assert str(secret) == "basic:TOKEN@git.example.org:443"
    assert str(secret_of("T@http://x.lan:1=private")) == "T@http://x.lan:1=private"


@pytest.mark.parametrize("text", ["TOKEN", "@h", "TO-KEN@h", "digest:T@h", "T@a@b", "T@*.x", "T@"])
def test_what_is_no_secret_is_refused(text: str) -> None:
    with pytest.raises(Misnamed):
        secret_of(text)


def web(permits: Permits, method: str, host: str, path: str = "/", port: int | None = None) -> str:
    found = permits.web(method, host, port, path, scheme="http")
    return "" if found is None else f"{found.rule.port} {found.secret or '-'}"


def test_a_plain_rule_opens_tunnels_and_requests_to_its_port_alone() -> None:
    permits = Permits(NetworkGrant(hosts=("a.example:443", "a.example:8443", "b.example:80")))
    assert permits.tunnel("a.example", 443) is not None
    assert permits.tunnel("a.example", 80) is None
    assert permits.tunnel("sub.a.example", 443) is None
    assert permits.tunnel("a.example.evil", 443) is None
    assert web(permits, "POST", "a.example") == "443 -"
    assert web(permits, "GET", "a.example", port=8443) == "8443 -"
    assert web(permits, "GET", "a.example", port=80) == ""
    assert web(permits, "GET", "b.example") == "80 -"
    assert permits.web("GET", "b.example", 80, "/", scheme="https") is None


def test_a_narrow_rule_opens_no_tunnel_and_only_its_methods_below_its_path() -> None:
    permits = Permits(NetworkGrant(hosts=("a.example/v1", "POST a.example/v1/jobs")))
    assert permits.tunnel("a.example", 443) is None
    assert web(permits, "GET", "a.example", "/v1/x") == "443 -"
    assert web(permits, "GET", "a.example", "/v1") == "443 -"
    assert web(permits, "GET", "a.example", "/v10") == ""
    assert web(permits, "GET", "a.example", "/v1/../admin") == ""
    assert web(permits, "GET", "a.example", "/v1/%2e%2e/admin") == ""
    assert web(permits, "POST", "a.example", "/v1/x") == ""
    assert web(permits, "POST", "a.example", "/v1/jobs/7") == "443 -"


def test_a_secret_opens_its_host_for_requests_and_for_no_tunnel() -> None:
    permits = Permits(NetworkGrant(secrets=("T@a.example", "U@a.example/up")))
    assert permits.tunnel("a.example", 443) is None
    assert web(permits, "DELETE", "a.example", "/x") == "443 T@a.example:443"
    assert web(permits, "GET", "a.example", "/up/x").endswith("U@a.example:443/up")
    assert web(permits, "GET", "b.example") == ""


def test_a_hosts_own_rule_bounds_its_secret_and_the_secret_says_how_it_is_spoken_to() -> None:
    grant = NetworkGrant(
        hosts=("a.example/v1", "http://b.lan:3000=private"), secrets=("T@a.example", "U@b.lan:3000")
    )
    permits = Permits(grant)
    assert web(permits, "GET", "a.example", "/v1/x") == "443 T@a.example:443"
    assert web(permits, "GET", "a.example", "/v2") == ""
    found = permits.web("GET", "b.lan", 3000, "/", scheme="http")
    assert found is not None
    assert (found.rule.is_plain, found.rule.near) == (False, "private")


def test_what_could_be_sent_somewhere_is_told() -> None:
    grant = NetworkGrant(
        hosts=("a.example", "b.example/v1", "POST c.example/x"), secrets=("T@d.e",)
    )
    assert [(each["host"], each["can_upload"]) for each in told(grant)] == [
        ("a.example:443", True),
        ("GET,HEAD b.example:443/v1", False),
        ("POST c.example:443/x", True),
        ("d.e:443", True),
    ]


def test_an_actor_is_told_how_each_thing_is_reached() -> None:
    grant = NetworkGrant(
        hosts=("a.example", "b.example/v1"),
        secrets=("T@c.example",),
        gateways=("git", "index"),
        repository="https://forge.example/shop",
    )
    said = instructions(grant)
    assert [each.split(",")[0] for each in said[:2]] == ["a.example:443", "c.example:443"]
    assert said[2].startswith("GET,HEAD b.example:443/v1, as http://")
    assert "git fetch https://forge.example/shop" in said[3]
    assert "package indexes" in said[4]
    assert instructions(NetworkGrant()) == ()


@pytest.mark.parametrize(
    "path",
    [
        *("a", "/a//b", "/./a", "/a/..", "/%2E%2e/a", "/a\\b", "/a;b", "/a%5cb", "/a b", "/a%00"),
        *(
            "/a#/../b",
            "/a/%c0%ae%C0%AE/b",
            "/a/..%09/b",
            "/a%0d%0ab",
            "/a/%u002e%u002e/b",
            "/a%",
            "/%7f",
        ),
    ],
)
def test_a_path_that_servers_read_in_two_ways_is_not_plain(path: str) -> None:
    assert not is_plain_path(path)


def test_settings_are_read_with_their_places() -> None:
    said = network_of(
        {"allow_hosts": ["a.example", "index", "git=private"], "planning": True,
         "max_plan_bytes": "1GiB", "max_connections": 3},
        ("network",),
    )  # fmt: skip
    assert said.allow_hosts == ("a.example", "index", "git=private")
    assert (said.planning, said.max_plan_bytes, said.max_connections) == (True, 1024**3, 3)
    assert said.max_call_bytes is None
    assert secrets_of(["T@a.example"], ("secrets",)) == ("T@a.example",)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"allow_host": []}, "did you mean 'allow_hosts'"),
        ({"allow_hosts": ["ok", "a@b"]}, r"network\.allow_hosts\[1\]: .*not HOST"),
        ({"allow_hosts": 7}, r"network\.allow_hosts: must be a list"),
        ({"planning": "yes"}, r"network\.planning: must be true or false"),
        ({"max_connections": 0}, r"network\.max_connections: must be a whole number"),
        ({"max_connections": True}, r"network\.max_connections: must be a whole number"),
        ({"max_call_bytes": "lots"}, r"network\.max_call_bytes: .*no size"),
    ],
)
def test_a_mistake_in_the_settings_is_named_by_its_place(
    body: dict[str, object], message: str
) -> None:
    with pytest.raises(Fault, match=message):
        network_of(body, ("network",))
    with pytest.raises(Fault, match=r"secrets\[0\]: .*NAME@HOST"):
        secrets_of(["index"], ("secrets",))


def test_traffic_is_summed_by_place_and_bounded() -> None:
    first = traffic_of(
        Attempt(gateway="connect", verdict="passed", host="::1", port=9, up=1, down=2)
    )
    again = traffic_of(Attempt(gateway="http", verdict="refused", host="::1", port=9))
    index = traffic_of(Attempt(gateway="index", verdict="passed", down=5))
    whole = summed((first,), (again, index, Traffic(place="x", up=7)), 2)
    assert whole == (
        Traffic(place="[::1]:9", attempts=2, refused=1, up=1, down=2),
        Traffic(place="index", attempts=1, down=5),
        Traffic(place="", up=7),
    )
    assert spent(whole) == 15
