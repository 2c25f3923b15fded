"""`agents model check`, `list` and `doctor`: what is said of a model before anything is done."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from models.ollama_server import OllamaServer
from models.servers import ChatServer

pytestmark = pytest.mark.anyio


async def command(environ: dict[str, str], *words: str) -> tuple[int, Any, str]:
    """Call `agents model`; return its exit code, its JSON and its other words."""
    return await agents(environ, "model", *words)


async def agents(
    environ: dict[str, str], *words: str, cwd: str | None = None
) -> tuple[int, Any, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "patchyard", *words, "--format", "json"),
        env=environ,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, json.loads(out), err.decode()


@pytest.fixture
def environ(tmp_path: Any) -> dict[str, str]:
    home = {"HOME": str(tmp_path), "PATCHYARD_HOME": str(tmp_path / "home")}
    return {**home, "PATH": "/usr/bin:/bin", "OLLAMA_HOST": "http://127.0.0.1:9"}


async def test_a_cold_model_is_waited_for_and_said_to_work(environ: dict[str, str]) -> None:
    server = OllamaServer(still_loading=1)
    async with server.running() as url:
        code, said, err = await command({**environ, "OLLAMA_HOST": url}, "check", "ollama:tiny")
    assert (code, said["data"]["facts"]["context_tokens"]) == (0, 32_768)
    assert "waits for tiny to be loaded" in err


async def test_a_model_that_its_provider_lacks_does_not_work(environ: dict[str, str]) -> None:
    async with ChatServer(key="k-1234567").running() as url:
        known = {**environ, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k-1234567"}
        good, _, _ = await command(known, "check", "openai:tiny")
        code, said, _ = await command(known, "check", "openai:tinny")
    assert (good, code) == (0, 4)
    assert said["error"]["hint"] == "it has `tiny`"


async def test_a_check_without_a_plan_tells_of_no_plan_to_resume(environ: dict[str, str]) -> None:
    code, said, _ = await command(environ, "check", "ollama:tiny")
    assert (code, "ollama serve" in said["error"]["hint"]) == (4, True)
    assert "resume" not in said["error"]["hint"]


async def test_a_list_shows_addresses_without_their_passwords(environ: dict[str, str]) -> None:
    secret = {"OPENAI_BASE_URL": "http://user:s3cret-word@127.0.0.1:9/v1"}
    code, said, err = await command({**environ, **secret}, "list")
    rows = {row["provider"]: row["base_url"] for row in said["data"]["providers"]}
    assert (code, rows["openai"]) == (0, "http://127.0.0.1:9/v1")
    assert "s3cret-word" not in json.dumps(said) + err


async def test_a_list_says_which_prices_are_known_and_of_which_day(
    environ: dict[str, str],
) -> None:
    _, said, _ = await command(environ, "list")
    _, doctor, _ = await agents(environ, "doctor")
    prices = said["data"]["prices"]
    assert prices["prices"]["openai"]["gpt-4o"] == {"input": 2.5, "output": 10.0, "cached": 1.25}
    assert prices["as_of"] in json.dumps(doctor["data"]["findings"])


async def test_the_doctor_asks_each_provider_what_it_has(environ: dict[str, str]) -> None:
    async with ChatServer(key="k-1234567").running() as url:
        known = {**environ, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k-1234567"}
        code, said, err = await agents(known, "doctor")
    rows = {row["name"]: row for row in said["data"]["findings"]}
    assert code == 0
    assert (rows["provider openai"]["is_good"], rows["model"]["is_good"]) == (True, False)
    assert rows["model"]["said"].endswith("openai answers, and its list lacks the model")
    assert rows["provider openai"]["said"] == "answers, 1 model listed"
    assert not rows["provider ollama"]["is_good"]
    assert "ollama serve" in rows["provider ollama"]["cure"]
    assert "RESETDATA_API_KEY" in str(rows["provider resetdata"])
    assert "resume" not in rows["provider ollama"]["cure"]
    assert "it was not asked" in rows["provider resetdata"]["said"]
    assert "k-1234567" not in json.dumps(said) + err


@pytest.mark.parametrize(
    ("model", "is_good", "told"),
    [
        ("openai:tiny", True, "openai lists it; the model itself was not asked"),
        ("house:tiny", False, "house cannot be reached: http://127.0.0.1:9: "),
        ("scripted:/dev/null", False, "is no plain file"),
        ("hous:tiny", False, "Did you mean 'house'?"),
    ],
)
async def test_the_doctor_says_what_is_known_of_the_model(
    environ: dict[str, str], tmp_path: Path, model: str, told: str, *, is_good: bool
) -> None:
    config = tmp_path / ".config/patchyard"
    config.mkdir(parents=True)
    house = {"kind": "openai-compatible", "base_url": "http://127.0.0.1:9"}
    (config / "models.yaml").write_text(json.dumps({"providers": {"house": house}}))
    async with ChatServer().running() as url:
        known = {**environ, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k", "PATCHYARD_MODEL": model}
        code, said, _ = await agents(known, "doctor")
    (row,) = [row for row in said["data"]["findings"] if row["name"] == "model"]
    assert (row["is_good"], told in row["said"]) == (is_good, True), row
    assert code == (2 if row.get("is_mistake") else 0)


async def test_the_doctor_says_that_the_next_of_a_chain_is_there(
    environ: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / ".config/patchyard"
    config.mkdir(parents=True)
    async with ChatServer().running() as url:
        known = {**environ, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "k"}
        role = {"default_model": "tiny", "provider": "ollama"}
        chain = {**role, "fallback_model": "tiny", "fallback_provider": "openai"}
        (config / "models.yaml").write_text(json.dumps({"roles": {"developer": chain}}))
        _, said, _ = await agents(known, "doctor")
    (row,) = [row for row in said["data"]["findings"] if row["name"] == "model"]
    assert row["is_good"]
    assert "ollama:tiny: ollama cannot be reached" in row["said"]
    assert "openai:tiny: openai lists it" in row["said"]


async def test_without_a_name_it_is_the_model_that_a_plan_would_have(
    environ: dict[str, str], tmp_path: Path
) -> None:
    config = tmp_path / ".config/patchyard"
    config.mkdir(parents=True)
    async with ChatServer().running() as url:
        models = {
            "providers": {"house": {"kind": "openai-compatible", "base_url": url}},
            "roles": {"developer": {"default_model": "tiny", "provider": "house"}},
        }
        (config / "models.yaml").write_text(json.dumps(models))
        _, said, _ = await command(environ, "check")
        _, doctor, _ = await agents(environ, "doctor")
        (config / "config.yaml").write_text("role: reviewer\n")
        _, reviewer, _ = await command(environ, "check")
        (config / "config.yaml").write_text("model: house:other\n")
        code, other, _ = await command(environ, "check")
    assert (said["data"]["model"], said["data"]["reason"]) == ("house:tiny", "role developer")
    (row,) = [row for row in doctor["data"]["findings"] if row["name"] == "model"]
    assert row["said"].startswith("house:tiny (role developer): house lists it")
    assert reviewer["data"]["reason"] == "role developer: reviewer has none of its own"
    assert (code, other["data"]["model"]) == (4, "house:other")


@pytest.mark.parametrize("is_checkout", [True, False])
def test_a_broken_file_of_settings_is_one_row_of_the_doctors(
    environ: dict[str, str], tmp_path: Path, *, is_checkout: bool
) -> None:
    place = Path(environ["HOME"], ".config/patchyard/config.yaml")
    place.parent.mkdir(parents=True)
    place.write_text("role: tester\nmodle: ollama:x\n")
    folder = tmp_path / "shop"
    (folder / ".git" if is_checkout else folder).mkdir(parents=True)
    code, said, _ = asyncio.run(agents(environ, "doctor", cwd=str(folder)))
    rows = {row["name"]: row for row in said["data"]["findings"]}
    (wrong,) = [row for row in rows.values() if "config.yaml:2:1: modle" in row["said"]]
    assert (code, wrong["name"], wrong["is_good"]) == (2, "settings", False)
    assert "config.yaml:2:1: modle" in said["error"]["message"]
    assert rows["database"]["is_good"]
    assert "environment process" in rows


@pytest.mark.parametrize(
    ("name", "value", "row", "said"),
    [
        ("AGENT_MODE", "mcok", "settings", "AGENT_MODE: "),
        ("PATCHYARD_HOME", "state", "disk", "PATCHYARD_HOME is state, a relative path"),
        ("PATCHYARD_HOME", "~no-such-user/x", "disk", "PATCHYARD_HOME is "),
        ("WORKSPACE_DIR", "work", "disk", "WORKSPACE_DIR is work, a relative path"),
        ("PATCHYARD_ROUNDS", "x", "settings", "PATCHYARD_ROUNDS: "),
        ("PATCHYARD_TIMEOUT", "foo", "settings", "PATCHYARD_TIMEOUT: "),
        ("PATCHYARD_POOL", "{a", "settings", "PATCHYARD_POOL:"),
    ],
)
def test_a_wrong_variable_is_one_row_of_the_doctors(
    environ: dict[str, str], tmp_path: Path, name: str, value: str, row: str, said: str
) -> None:
    code, told, _ = asyncio.run(agents({**environ, name: value}, "doctor", cwd=str(tmp_path)))
    rows = {row["name"]: row for row in told["data"]["findings"]}
    assert (code, rows[row]["is_good"], rows[row]["said"].startswith(said)) == (2, False, True)
    assert [each for each in rows if rows[each]["said"].startswith(said)] == [row]
    if row == "settings":  # the stores do not need it
        assert rows["database"]["is_good"]
        assert "environment host" in rows


def test_a_home_in_a_checkout_is_told_with_what_run_asks_of_it(
    environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    inside = {**environ, "PATCHYARD_HOME": str(tmp_path / "shop" / "state")}
    _, told, _ = asyncio.run(agents(inside, "doctor", cwd=str(tmp_path)))
    (home,) = [row for row in told["data"]["findings"] if row["name"] == "home"]
    lies = f"it lies in the checkout {tmp_path}/shop: `run` there refuses it unless git ignores it"
    assert home["said"].endswith(lies)


def test_a_broken_file_of_models_is_one_row_of_the_doctors(environ: dict[str, str]) -> None:
    place = Path(environ["HOME"], ".config/patchyard/models.yaml")
    place.parent.mkdir(parents=True)
    place.write_text("providers: [x]\n")
    code, said, _ = asyncio.run(agents(environ, "doctor"))
    (row,) = [row for row in said["data"]["findings"] if "model" in row["name"]]
    assert (code, row["is_good"], "models.yaml:1:" in row["said"]) == (2, False, True)
