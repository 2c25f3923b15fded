"""What indexes and settings may say that leads nowhere."""

from pathlib import Path

import pytest

from patchyard.clients import index_settings, upstream
from patchyard.clients.upstream import UpstreamFailed

pytestmark = pytest.mark.anyio


def test_a_netrc_that_is_missing_or_broken_gives_nothing(tmp_path: Path) -> None:
    assert upstream._from_netrc(None, "h") is None
    assert upstream._from_netrc(tmp_path / "none", "h") is None
    broken = tmp_path / "broken"
    broken.write_text('machine\n"')
    broken.chmod(0o600)
    assert upstream._from_netrc(broken, "h") is None
    right = tmp_path / "right"
    right.write_text("machine h login me password secret\n")
    right.chmod(0o600)
    assert upstream._from_netrc(right, "h") == upstream.basic("me", "secret")
    assert upstream._from_netrc(right, "other") is None


@pytest.mark.parametrize("further", ["http://[::1", "http://h:port/", "http://h:99999/"])
def test_an_address_that_is_none_is_refused(further: str) -> None:
    with pytest.raises(UpstreamFailed, match="no web address"):
        upstream._led("https://index/simple/", further)
    assert upstream._led("https://index/simple/a/", "../b") == "https://index/simple/b"


async def test_a_name_that_only_a_proxy_knows_has_no_address() -> None:
    assert {str(each) for each in await upstream._addresses("127.0.0.1")} == {"127.0.0.1"}
    assert await upstream._addresses("no-such-name.invalid") == []


async def test_an_address_in_anothers_clothes_is_known_for_what_it_is() -> None:
    for wrapped in ("::ffff:127.0.0.1", "::ffff:7f00:1", "64:ff9b::7f00:1", "2002:7f00:1::"):
        assert [each.is_loopback for each in await upstream._addresses(wrapped)][:1] == [True]


def test_settings_that_are_no_literals_are_taken_as_they_are(tmp_path: Path) -> None:
    assert index_settings._literal("'quoted'") == "quoted"
    assert index_settings._literal("not a literal") == "not a literal"
    assert index_settings._text(None) == index_settings._text(str(tmp_path / "none")) == ""
