"""A host has one spelling, and an address one nearness, whatever it is wrapped in."""

import ipaddress

import pytest

from patchyard.domain.addresses import Misnamed, host_of, nearness, parted, port_of, shown


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("API.Example.ORG", "api.example.org"),
        ("api.example.org.", "api.example.org"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("localhost", "localhost"),
        ("_service.example.org", "_service.example.org"),
        ("10.1.2.3", "10.1.2.3"),
        ("[::1]", "::1"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("[::ffff:7f00:1]", "127.0.0.1"),
        ("[64:ff9b::7f00:1]", "127.0.0.1"),
        ("[2002:7f00:1::]", "127.0.0.1"),
        ("[::a9fe:a9fe]", "169.254.169.254"),
        ("[FD00:EC2:0::254]", "fd00:ec2::254"),
    ],
)
def test_a_host_has_one_spelling(text: str, host: str) -> None:
    assert host_of(text) == host


@pytest.mark.parametrize(
    "text",
    [
        *("2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "127.0.0.01", "1.2.3.4.5"),
        *("a.0x7f", "a.1", "256.1.1.1", "", ".", "a..b", "-a.example", "a-.example"),
        *("bücher.example", "ⓛocalhost", "a b", "a/b", "a@b", "a%2e", "a\x00b", "a\nb", "l" * 64),
        *("[::1", "::1", "[fe80::1%eth0]", "[::g]", "[127.0.0.1]", "a." * 127 + "aa"),
    ],
)
def test_what_others_could_read_as_another_host_is_refused(text: str) -> None:
    with pytest.raises(Misnamed):
        host_of(text)


@pytest.mark.parametrize(
    "text",
    [
        *("user@host", "user:pass@host:80", "host:", "host:0", "host:65536", "host:8a", "host:٣"),
        *("host:80:80", "::1", "[::1]80", "ho st:80", "host/path", "host?x", "host#x", ""),
    ],
)
def test_host_and_port_are_exactly_that(text: str) -> None:
    with pytest.raises(Misnamed):
        parted(text)


def test_a_port_may_be_left_out() -> None:
    assert parted("Example.org") == ("example.org", None)
    assert parted("[::1]:8080") == ("::1", 8080)
    assert shown("::1") == "[::1]"
    with pytest.raises(Misnamed):
        port_of("+80")


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("93.184.216.34", "public"),
        ("2606:2800:220:1::1", "public"),
        ("10.0.0.1", "private"),
        ("172.16.9.9", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("fc00::1", "private"),
        ("192.0.2.1", "private"),
        ("192.0.0.8", "private"),
        ("192.88.99.1", "private"),
        ("fec0::1", "private"),
        ("3fff::1", "private"),
        ("64:ff9b:1:a9fe:a9:fe00:808:808", "public"),  # goes to 8.8.8.8, its last four bytes
        ("127.0.0.1", "loopback"),
        ("127.9.9.9", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("64:ff9b::7f00:1", "loopback"),
        ("64:ff9b:1::7f00:1", "loopback"),
        ("2002:a00:1::", "private"),
        ("::ffff:10.0.0.1", "private"),
        ("169.254.169.254", "link-local"),
        ("::ffff:169.254.169.254", "link-local"),
        ("2002:a9fe:a9fe::", "link-local"),
        ("fe80::1", "link-local"),
        ("fd00:ec2::254", "link-local"),
        ("100.100.100.200", "link-local"),
        ("168.63.129.16", "link-local"),
        ("0.0.0.0", "unusable"),
        ("0.1.2.3", "unusable"),
        ("::", "unusable"),
        ("224.0.0.1", "unusable"),
        ("ff02::1", "unusable"),
        ("255.255.255.255", "unusable"),
        ("240.0.0.1", "unusable"),
    ],
)
def test_an_address_is_as_near_as_where_it_leads(address: str, near: str) -> None:
    assert str(nearness(ipaddress.ip_address(address))) == near
