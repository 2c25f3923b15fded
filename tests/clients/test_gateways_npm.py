"""The gateway to the npm registries, before registries on loopback."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.indexes import Index, Inside, gate, indexing, npm_document, tarball
from patchyard.clients.npm import SHORT_TYPE

pytestmark = [pytest.mark.anyio, pytest.mark.service("node")]


@pytest.fixture
def registry() -> Iterator[Index]:
    with indexing() as made:
        yield made


def _publish(registry: Index, name: str) -> None:
    plain = name.rpartition("/")[2]
    path = f"/{name}/-/{plain}-1.0.0.tgz"
    registry.say(path, tarball(name))
    document = npm_document(name, f"{registry.url}{path}", tarball(name))
    registry.say(f"/{name.replace('/', '%2f')}", document, content_type=SHORT_TYPE)


def _settings(registry: Index, home: Path, *lines: str) -> dict[str, str]:
    (home / ".npmrc").write_text("\n".join([f"registry={registry.url}/", *lines, ""]))
    return {"NPM_CONFIG_USERCONFIG": str(home / ".npmrc")}


async def _npm(inside: Inside, project: Path, *words: str) -> None:
    """Run npm as it would run inside."""
    environ = {**inside.variables, "PATH": os.environ["PATH"], "HOME": str(project)}
    environ["npm_config_cache"] = str(project.parent / "cache")
    running = await asyncio.create_subprocess_exec("npm", *words, cwd=project, env=environ)
    assert await running.wait() == 0


async def test_metadata_leads_to_the_gateway_and_tarballs_come_through_it(
    registry: Index, tmp_path: Path
) -> None:
    _publish(registry, "sample")
    _publish(registry, "@here/sample")
    async with gate(tmp_path, **_settings(registry, tmp_path)) as inside:
        short = await inside.get("/npm/sample", accept=f"{SHORT_TYPE}; q=1.0")
        scoped = await inside.get("/npm/@here%2fsample", accept="application/json")
        link = scoped.json["versions"]["1.0.0"]["dist"]["tarball"]
        file = await inside.get(link)
        missing = await inside.get("/npm/other")
    assert short.headers["content-type"] == SHORT_TYPE
    assert scoped.headers["content-type"] == "application/json"
    assert link == f"http://127.0.0.1:{inside.port}/npm/@here/sample/-/sample-1.0.0.tgz"
    assert f":{registry.port}" not in (short.body + scoped.body).decode()
    assert short.json["versions"]["1.0.0"]["dist"]["integrity"].startswith("sha512-")
    assert file.body == tarball("@here/sample")
    assert missing.status == 404


async def test_a_lock_files_address_works_without_the_metadata_before(
    registry: Index, tmp_path: Path
) -> None:
    _publish(registry, "sample")
    async with gate(tmp_path, **_settings(registry, tmp_path)) as inside:
        file = await inside.get("/npm/sample/-/sample-1.0.0.tgz")
        other = await inside.get("/npm/sample/-/sample-9.9.9.tgz")
        odd = await inside.get("/npm/sample/-/readme.md")
        account = await inside.get("/npm/-/whoami")
    assert file.body == tarball("sample")
    assert [other.status, odd.status, account.status] == [404, 404, 404]


async def test_a_scope_has_its_own_registry_and_token(registry: Index, tmp_path: Path) -> None:
    _publish(registry, "sample")
    with indexing() as house:
        _publish(house, "@house/part")
        lines = (
            f"@house:registry={house.url}/",
            f"//127.0.0.1:{house.port}/:_authToken=${{HOUSE_TOKEN}}",
        )
        settings = _settings(registry, tmp_path, *lines)
        async with gate(tmp_path, **settings, HOUSE_TOKEN="t0ken") as inside:
            part = await inside.get("/npm/@house%2fpart")
            file = await inside.get(part.json["versions"]["1.0.0"]["dist"]["tarball"])
            await inside.get("/npm/sample")
        assert file.body == tarball("@house/part")
        said = {headers.get("authorization") for _, headers in house.seen}
        assert said == {"Bearer t0ken"}
        assert not any("authorization" in headers for _, headers in registry.seen)
    assert b"t0ken" not in part.body


async def test_npm_itself_installs_through_the_gateway(registry: Index, tmp_path: Path) -> None:
    _publish(registry, "sample")
    project = tmp_path / "project"
    project.mkdir()
    async with gate(tmp_path, **_settings(registry, tmp_path)) as inside:
        await _npm(inside, project, "install", "--silent", "sample")
    installed = project / "node_modules" / "sample" / "index.js"
    assert installed.read_text() == "module.exports = 7;\n"


async def test_an_address_with_the_gateways_path_twice_is_what_an_older_npm_asks_for(
    registry: Index, tmp_path: Path
) -> None:
    for name in ("sample", "@here/sample", "npm"):
        _publish(registry, name)
    async with gate(tmp_path, **_settings(registry, tmp_path)) as inside:
        plain = await inside.get("/npm/npm/sample/-/sample-1.0.0.tgz")
        scoped = await inside.get("/npm/npm/@here/sample/-/sample-1.0.0.tgz")
        itself = await inside.get("/npm/npm/-/npm-1.0.0.tgz")
        document = await inside.get("/npm/npm")
    assert plain.body == tarball("sample")
    assert scoped.body == tarball("@here/sample")
    assert itself.body == tarball("npm")
    assert document.json["name"] == "npm"


async def test_a_lock_file_that_names_the_registry_it_saw_is_installed_as_it_says(
    registry: Index, tmp_path: Path
) -> None:
    document = npm_document("sample", f"{registry.url}/api/sample/-/s.tgz", tarball("sample"))
    registry.say("/api/sample", document, content_type=SHORT_TYPE)
    registry.say("/api/sample/-/s.tgz", tarball("sample"))
    dist = json.loads(document)["versions"]["1.0.0"]["dist"]
    locked = {
        "version": "1.0.0",
        "resolved": "https://registry.invalid/api/sample/-/s.tgz",
        "integrity": dist["integrity"],
    }
    needs = {"dependencies": {"sample": "1.0.0"}}
    packages = {"": needs, "node_modules/sample": locked}
    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text(json.dumps(needs))
    (project / "package-lock.json").write_text(
        json.dumps({"lockfileVersion": 3, "requires": True, "packages": packages})
    )
    (tmp_path / ".npmrc").write_text(f"registry={registry.url}/api/\n")
    settings = {"NPM_CONFIG_USERCONFIG": str(tmp_path / ".npmrc")}
    async with gate(tmp_path, **settings) as inside:
        await _npm(inside, project, "ci", "--silent")
    assert (project / "node_modules" / "sample" / "index.js").is_file()


async def test_metadata_that_cannot_be_read_is_a_clear_failure(
    registry: Index, tmp_path: Path
) -> None:
    registry.say("/sample", b'{"versions": {"1.0.0": {}}}', content_type="application/json")
    async with gate(tmp_path, **_settings(registry, tmp_path)) as inside:
        answer = await inside.get("/npm/sample")
    assert (answer.status, answer.body) == (502, b"no metadata of a package\n")


async def test_without_npm_the_gateway_says_so(tmp_path: Path) -> None:
    async with gate(tmp_path, PATH=str(tmp_path)) as inside:
        answer = await inside.get("/npm/sample")
    assert answer.status == 502
    assert b"no npm" in answer.body
