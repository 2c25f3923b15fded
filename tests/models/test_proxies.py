"""Providers behind a company's proxy: found by the usual variables, its password never shown."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from models.certificates import served_as
from models.proxy import PASSWORD, USER, LoopbackProxy
from models.servers import ChatServer
from models.test_provider_troubles import everything
from patchyard.contracts.model import Model
from patchyard.domain.errors import ModelUnavailable, UsageError
from patchyard.domain.messages import Message, ModelRequest, Speaker
from patchyard.models.keys import proxy_secrets
from patchyard.models.prices import shipped_prices
from patchyard.models.providers import Catalogue, ProviderSettings
from patchyard.models.recorded import RecordingModel
from patchyard.models.scripted import ScriptedModel, ScriptedReply

pytestmark = pytest.mark.anyio

HOST = "models.example.invalid"  # only the proxy knows it
KEY = "k-0123456789"
ASKED = ModelRequest(messages=(Message(speaker=Speaker.USER, text="hi"),))
USERINFO = f"{USER}:{quote(PASSWORD, safe='')}@"


def model_at(url: str, environ: dict[str, str]) -> Model:
    house = ProviderSettings(kind="openai-compatible", base_url=url, api_key_env="HOUSE_KEY")
    known = {"HOUSE_KEY": KEY, **environ}
    return Catalogue(environ=known, prices=shipped_prices(), configured={"house": house}).open(
        "house:tiny"
    )


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Sets variables of the process, and gives them as the engine gets them."""

    class Environ(dict[str, str]):
        def __setitem__(self, name: str, value: str) -> None:
            monkeypatch.setenv(name, value)
            super().__setitem__(name, value)

    return Environ()


@asynccontextmanager
async def proxied(*, is_open: bool = True) -> AsyncIterator[tuple[ChatServer, LoopbackProxy, str]]:
    server = ChatServer(key=KEY)
    async with server.running() as url:
        proxy = LoopbackProxy(behind=urlsplit(url).port or 0, is_open=is_open)
        async with proxy.running() as place:
            yield server, proxy, place


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_a_provider_is_asked_through_the_proxy_of_the_environment(
    name: str, variables: dict[str, str]
) -> None:
    async with proxied(is_open=False) as (server, proxy, place):
        variables[name] = f"http://{USERINFO}{place}"
        model = model_at(f"http://{HOST}/v1", variables)
        reply = await model.complete(ASKED)
        await model.close()
    assert reply.message.text == "hello"
    assert len(server.requests) == 1
    assert proxy.asked == [f"POST http://{HOST}/v1/chat/completions HTTP/1.1"]


async def test_tls_goes_through_a_tunnel_and_trusts_the_companys_own_authority(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    certificate, tls = served_as(HOST, tmp_path)
    server = ChatServer(key=KEY, tls=tls)
    async with server.running() as url:
        proxy = LoopbackProxy(behind=urlsplit(url).port or 0, is_open=False)
        async with proxy.running() as place:
            variables["HTTPS_PROXY"] = f"http://{USERINFO}{place}"
            distrusting = model_at(f"https://{HOST}/v1", variables)
            with pytest.raises(ModelUnavailable, match="self-signed") as caught:
                await distrusting.complete(ASKED)
            assert "SSL_CERT_FILE" in caught.value.hint
            variables["SSL_CERT_FILE"] = str(certificate)
            model = model_at(f"https://{HOST}/v1", variables)
            assert (await model.complete(ASKED)).message.text == "hello"
            await distrusting.close()
            await model.close()
    assert proxy.asked == [f"CONNECT {HOST}:443 HTTP/1.1"] * 2


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_this_machine_is_never_asked_for_through_a_proxy(
    host: str, variables: dict[str, str]
) -> None:
    async with proxied() as (server, proxy, place):
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            variables[name] = f"http://{place}"
        model = model_at(f"http://{host}:{proxy.behind}/v1", variables)
        await model.complete(ASKED)
        await model.close()
    assert len(server.requests) == 1
    assert proxy.asked == []


@pytest.mark.parametrize("spared", [HOST, ".example.invalid", f"10.0.0.0/8, {HOST}", "*"])
async def test_hosts_that_are_spared_are_asked_without_the_proxy(
    spared: str, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    async with proxied() as (_, proxy, place):
        variables["HTTP_PROXY"] = f"http://{place}"
        variables["NO_PROXY"] = spared
        model = model_at(f"http://{HOST}/v1", variables)
        with pytest.raises(ModelUnavailable, match="host is not known"):
            await model.complete(ASKED)
        await model.close()
    assert proxy.asked == []


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_refuses_is_named_and_its_password_is_not(
    scheme: str, variables: dict[str, str]
) -> None:
    async with proxied(is_open=False) as (server, _, place):
        wrong = "wr0ng-password"
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            variables[name] = f"http://{USER}:{wrong}@{place}"
        model = model_at(f"{scheme}://{HOST}/v1", variables)
        with pytest.raises(ModelUnavailable, match="answered 407") as caught:
            await model.complete(ASKED)
        await model.close()
    assert "HTTPS_PROXY" in caught.value.hint
    assert server.requests == []
    for secret in (wrong, KEY, PASSWORD):
        assert secret not in caught.value.message + caught.value.hint
    assert wrong not in everything(caught.value)
    assert KEY not in everything(caught.value)


async def test_a_proxy_that_is_not_there_is_told_from_the_provider(
    variables: dict[str, str],
) -> None:
    variables["HTTP_PROXY"] = f"http://{USERINFO}127.0.0.1:9"
    model = model_at(f"http://{HOST}/v1", variables)
    with pytest.raises(ModelUnavailable, match=r"by the proxy 127\.0\.0\.1:9") as caught:
        await model.complete(ASKED)
    await model.close()
    assert "NO_PROXY" in caught.value.hint
    assert PASSWORD not in everything(caught.value)
    assert quote(PASSWORD, safe="") not in everything(caught.value)


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        ("socks5://u:s3cret-word@box:1080", "SOCKS"),
        ("ftp://u:s3cret-word@box", "no address"),
        ("http://box:s3cret-word", "no address"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_with_the_form(
    proxy: str, words: str, variables: dict[str, str]
) -> None:
    variables["ALL_PROXY"] = proxy
    with pytest.raises(UsageError, match=words) as caught:
        model_at(f"https://{HOST}/v1", variables)
    assert "http://HOST:PORT" in caught.value.hint
    assert "s3cret-word" not in everything(caught.value)
    model_at("http://127.0.0.1:1/v1", variables)  # nothing there asks for a proxy


async def test_a_socks_proxy_does_not_hinder_the_one_that_counts(
    variables: dict[str, str],
) -> None:
    async with proxied() as (server, proxy, place):
        variables["ALL_PROXY"] = "socks5://127.0.0.1:1080"
        variables["HTTP_PROXY"] = place
        model = model_at(f"http://{HOST}/v1", variables)
        await model.complete(ASKED)
        await model.close()
        assert len(proxy.asked) == len(server.requests) == 1
    variables["NO_PROXY"] = HOST
    model = model_at(f"https://{HOST}/v1", variables)  # HTTPS has SOCKS alone, and is spared
    await model.close()


def test_certificates_that_are_not_there_are_named(variables: dict[str, str]) -> None:
    variables["SSL_CERT_FILE"] = "/nowhere/authority.pem"
    with pytest.raises(UsageError, match="SSL_CERT_FILE"):
        model_at(f"https://{HOST}/v1", variables)


async def test_a_recording_hides_the_passwords_of_proxies(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    variables["https_proxy"] = f"http://{USERINFO}box:3128"
    secrets = proxy_secrets(variables)
    catalogue = Catalogue(environ=variables, prices=shipped_prices())
    shown = f"the environment says {', '.join(secrets)}"
    model = RecordingModel(
        ScriptedModel(answering=lambda _: ScriptedReply(text=shown)),
        tmp_path / "talk",
        places=catalogue.placeholders(),
        environment="process",
        plan="p",
    )
    await model.prepare()
    await model.complete(ASKED)
    await model.close()
    assert len(secrets) == 3
    assert not [one for one in secrets if one in (tmp_path / "talk").read_text()]
