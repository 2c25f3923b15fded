"""Addresses of repositories: three protocols, nothing git could misread, and no credentials."""

import pytest

from patchyard.domain.errors import UsageError
from patchyard.domain.remotes import cure_for, is_remote, remote_of


@pytest.mark.parametrize(
    ("text", "scheme", "place", "path", "name"),
    [
        (
            "https://Forge.example/ada/shop.git",
            "https",
            "forge.example:443",
            "/ada/shop.git",
            "shop",
        ),
        ("HTTPS://forge.example:8443/shop", "https", "forge.example:8443", "/shop", "shop"),
        ("ssh://git@forge.example:2222/a/b.git", "ssh", "forge.example:2222", "/a/b.git", "b"),
        ("ssh://forge/a", "ssh", "forge:22", "/a", "a"),
        ("git@forge.example:ada/shop.git", "ssh", "forge.example:22", "/ada/shop.git", "shop"),
        ("file:///srv/my%20shop.git", "file", "", "/srv/my shop.git", "my-shop"),
        ("file:///srv/...", "file", "", "/srv/...", "repository"),
    ],
)
def test_an_address_is_taken_apart(
    text: str, scheme: str, place: str, path: str, name: str
) -> None:
    assert is_remote(text)
    made = remote_of(text)
    assert (made.scheme, made.place, made.path, made.name) == (scheme, place, path, name)
    assert made.source == (path if scheme == "file" else made.url)


@pytest.mark.parametrize("text", [".", "/srv/shop", "~/shop", "../a@b", "shop:2", "C", "a b@c:d"])
def test_a_folder_is_no_address(text: str) -> None:
    assert not is_remote(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://ada:s3cret@forge.example/shop.git",
        "https://s3cret@forge.example/shop.git",
        "https://forge.example/shop.git?private_token=s3cret",
        "https://forge.example/shop.git#s3cret",
        "https://forge.example:s3cret/shop.git",
        "ssh://ada:s3cret@forge.example/shop.git",
        "http://s3cret.example/shop.git",
        "git://s3cret.example/shop.git",
        "ext::sh -c s3cret",
        "ext::sh%20-c%20s3cret",
        "fd::17/s3cret",
        "https://-oProxyCommand=s3cret/shop.git",
        "ssh://-oProxyCommand=s3cret/shop.git",
        "ssh://-oProxyCommand=s3cret@host/shop.git",
        "git@-oProxyCommand=s3cret:shop.git",
        "ssh://forge.example/-s3cret",
        "ssh://forge.example/a/../../s3cret",
        "https://forge.example/a%2f..%2fs3cret",
        "https://forge.example/s3cret\nother",
        "https://forge.example/s3cret\x00",
        "git@forge.example:s3cret\x1b[2J",
        "https://forge.example/s3cret \u202e",
        "https://forge.example",
        "https:///s3cret",
        "file://host/s3cret",
        "file:///srv/s3cret%0aother",
        "file:///srv/s3cret%00",
        "--upload-pack=s3cret",
        "",
    ],
)
def test_what_must_not_be_asked_of_git_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        remote_of(text)
    said = f"{caught.value.message} {caught.value.hint} {caught.value.details}"
    assert "s3cret" not in said
    assert "cannot be cloned: " in said


def test_what_is_no_folder_and_looks_like_an_address_is_told_how_one_is_written() -> None:
    assert "USER@HOST:PATH" in cure_for("forge:ada/shop.git")
    assert cure_for("ada/shop") == "name a folder inside a checkout"
