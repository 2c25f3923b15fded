"""A provider that a program brings along, known to nothing of ours before it is registered (C1)."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.worksite import Worksite
from patchyard.domain.errors import ModelUnavailable, UsageError
from patchyard.execution import (
    Message,
    ModelProvider,
    ProviderConfig,
    ProviderFactory,
    Speaker,
    TaskAction,
    TaskExecutionRequest,
    TaskRequest,
    TaskResponse,
    execute_task,
)

pytestmark = [pytest.mark.anyio, pytest.mark.service("bubblewrap")]

PACKAGE = '''
"""A provider as a package of others has it: it imports the public names alone."""

from patchyard.execution import TaskAction, TaskRequest, TaskResponse


class Acme:
    """Writes one file and is done."""

    def __init__(self, region: str = "", api_key: str = "") -> None:
        self.region, self.api_key = region, api_key
        self.asked: list[TaskRequest] = []

    async def execute_task(self, request: TaskRequest) -> TaskResponse:
        self.asked.append(request)
        if request.purpose == "execute" and request.turn == 0:
            content = f"{request.model} {self.region} {len(self.api_key)} {request.role}\\n"
            said = {"path": "new.txt", "content": content}
            action = TaskAction(name="write_file", arguments=said)
            return TaskResponse(text="I write it.", actions=(action,), input_tokens=9, usd=0.01)
        done = TaskAction(name="finish", arguments={"summary": "made by acme"})
        return TaskResponse(actions=(done,), usd=0.01)

    def supports_tools(self) -> bool:
        return True

    def supports_mcp(self) -> bool:
        return True

    def get_capabilities(self) -> list[str]:
        return ["context:32768"]
'''
CONFIGURED = """
providers:
  acme: {kind: "acme_models:Acme", options: {region: eu}, api_key_env: ACME_KEY}
"""


@pytest.fixture
def site(tmp_path: Path) -> Worksite:
    return Worksite.make(tmp_path, {"a.py": "a = 1\n"})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Lay the package where Python finds it, as an installation does."""
    folder = tmp_path / "installed"
    folder.mkdir()
    (folder / "acme_models.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(folder)
    sys.modules.pop("acme_models", None)
    return str(folder)


class Acme:
    """A provider of the test's own."""

    def __init__(self) -> None:
        self.asked: list[TaskRequest] = []

    async def execute_task(self, request: TaskRequest) -> TaskResponse:
        self.asked.append(request)
        if request.purpose == "execute" and request.turn == 0:
            arguments = {"path": "new.txt", "content": "new\n"}
            return TaskResponse(actions=(TaskAction(name="write_file", arguments=arguments),))
        return TaskResponse(actions=(TaskAction(name="finish", arguments={"summary": "made"}),))

    def supports_tools(self) -> bool:
        return True

    def supports_mcp(self) -> bool:
        return False

    def get_capabilities(self) -> list[str]:
        return ["context:9000", "images"]


def request(site: Worksite, **options: Any) -> TaskExecutionRequest:
    given: dict[str, Any] = {
        "task": "do it",
        "repository": str(site.repository),
        "environment": "process",
        "validate": ("test -e new.txt",),
        **options,
    }
    return TaskExecutionRequest(**given)


def user_says(site: Worksite, text: str) -> dict[str, str]:
    """Write the user's models.yaml and return the environment that has it."""
    folder = site.folder / "config" / "patchyard"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "models.yaml").write_text(text)
    return {**site.environ, "XDG_CONFIG_HOME": str(folder.parent), "OLLAMA_HOST": "127.0.0.1:9"}


async def test_a_provider_from_outside_is_registered_and_carries_a_task_out(
    site: Worksite,
) -> None:
    acme = Acme()
    assert isinstance(acme, ModelProvider)
    factory = ProviderFactory(site.environ)
    factory.register("acme", acme)
    assert "acme" in factory.providers()
    assert (await factory.health())["acme"] == ""
    model = await factory.create("acme:large")
    assert {"context:9000", "images", "native-tools"} <= set(model.get_capabilities())
    result = await execute_task(request(site, provider=model), environ=site.environ)
    await site.clear()
    assert (result.success, result.changed, result.summary) == (True, True, "made"), result.message
    assert [each.purpose for each in acme.asked] == ["strategize", "execute", "execute"]
    told = acme.asked[1]
    assert (told.model, told.task, told.role) == ("large", "do it", "developer")
    assert {"write_file", "finish"} <= {tool.name for tool in told.tools}
    assert told.messages[0].speaker is Speaker.SYSTEM


async def test_a_configured_model_answers_one_turn_like_any_provider(site: Worksite) -> None:
    acme = Acme()
    factory = ProviderFactory(site.environ)
    factory.register("acme", acme)
    asked = TaskRequest(messages=(Message(speaker=Speaker.USER, text="go"),), purpose="execute")
    answer = await (await factory.create("acme:large")).execute_task(asked)
    assert answer.actions[0].arguments == {"path": "new.txt", "content": "new\n"}
    script = await factory.create(site.script([{"text": "hello"}]))
    assert isinstance(script, ModelProvider)
    said = await script.execute_task(asked)
    assert (said.text, said.actions, said.usd) == ("hello", (), 0.0)
    whole: Any = request(site)
    with pytest.raises(UsageError, match="asked a TaskRequest, not a TaskExecutionRequest"):
        await script.execute_task(whole)


async def test_an_object_in_the_request_itself_carries_the_task_out(site: Worksite) -> None:
    config = ProviderConfig(name="acme", model="large", provider=Acme())
    result = await execute_task(request(site, provider=config), environ=site.environ)
    await site.clear()
    assert (result.success, result.summary) == (True, "made"), result.message
    assert result.tokens > 0


async def test_what_a_broken_provider_does_is_the_tasks_failure(site: Worksite) -> None:
    class Broken(Acme):
        async def execute_task(self, request: TaskRequest) -> TaskResponse:
            raise ValueError(f"no {request.model}")

    config = ProviderConfig(name="acme", model="large", provider=Broken())
    result = await execute_task(request(site, provider=config), environ=site.environ)
    await site.clear()
    assert (result.success, result.error) == (False, "model_failed")
    assert "(test_providers_of_others." in result.message
    assert "raised ValueError: no large at" in result.message
    assert result.hint


WRONG = [
    ({"provider": 5}, "TaskExecutionRequest.provider is a int"),
    ({"provider": Acme()}, "TaskExecutionRequest.provider is a Acme"),
    (
        {"provider": ProviderConfig(name="acme", model="a", provider=Acme()), "model": "b:c"},
        "`model` of TaskExecutionRequest is said twice",
    ),
    ({"provider": ProviderConfig(name="openai", model="a", provider=Acme())}, "provider openai"),
    ({"provider": ProviderConfig(name="a b", model="a", provider=Acme())}, "'a b' cannot name"),
    ({"provider": ProviderConfig(name="scripted", model="a", provider=Acme())}, "is taken"),
    ({"provider": ProviderConfig(name="acme", model="", provider=Acme())}, "names no model"),
    ({"provider": ProviderConfig(name="acme", model="a")}, "unknown model provider 'acme'"),
    (
        {"provider": ProviderConfig(name="acme", model="a", provider=Acme(), settings={"a": 1})},
        "has an object and `settings`",
    ),
    (
        {"provider": ProviderConfig(name="acme", model="a", settings={"base_ulr": "http://x"})},
        "base_ulr",
    ),
]


@pytest.mark.parametrize(("options", "said"), WRONG, ids=lambda each: str(each)[:30])
async def test_a_provider_that_can_be_none_is_a_wrong_use(
    options: Mapping[str, object], said: str, site: Worksite
) -> None:
    wrong = await execute_task(request(site, **options), environ=site.environ)
    assert wrong.error in {"usage", "unknown_name"}
    assert wrong.plan_id == ""
    assert said in wrong.message
    assert wrong.hint


async def test_a_name_is_registered_once() -> None:
    factory = ProviderFactory({})
    factory.register("acme", Acme())
    with pytest.raises(UsageError, match="there is a provider acme already"):
        factory.register("acme", Acme())


async def test_a_class_of_an_installed_package_is_a_provider_by_the_users_file(
    site: Worksite, package: str
) -> None:
    assert package
    environ = {**user_says(site, CONFIGURED), "ACME_KEY": "k-12345"}
    model = await ProviderFactory(environ).create("acme:large")
    assert "context:32768" in model.get_capabilities()
    result = await execute_task(
        request(site, model="acme:large", apply_to="worktree"), environ=environ
    )
    await site.clear()
    assert (result.success, result.summary) == (True, "made by acme"), result.message
    assert (site.repository / "new.txt").read_text() == "large eu 7 developer\n"
    assert result.usd == pytest.approx(0.03)
    with pytest.raises(ModelUnavailable, match="acme needs a key"):
        await ProviderFactory(user_says(site, CONFIGURED)).create("acme:large")


def test_the_command_line_takes_a_class_of_an_installed_package(
    site: Worksite, package: str
) -> None:
    environ = {**user_says(site, CONFIGURED), "ACME_KEY": "k", "PYTHONPATH": package}
    words = ["run", "do it", "--model", "acme:large", "--in", "process", "--validate", "true"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "patchyard", *words],
        cwd=site.repository,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "made by acme" in done.stdout


REFUSED = [
    ("acme_models:Acmee", "has no class 'Acmee'"),
    ("acme_modls:Acme", "there is no module 'acme_modls'"),
    ("acme_models.further:Acme", "cannot be imported: ModuleNotFoundError"),
]


@pytest.mark.parametrize(("kind", "said"), REFUSED)
async def test_a_class_that_is_not_there_is_refused_before_there_is_a_plan(
    site: Worksite, package: str, kind: str, said: str
) -> None:
    assert package
    environ = user_says(site, f'providers: {{acme: {{kind: "{kind}"}}}}\n')
    wrong = await execute_task(request(site, model="acme:large"), environ=environ)
    assert (wrong.error, wrong.plan_id) == ("usage", "")
    assert said in wrong.message
    assert wrong.hint


async def test_options_that_the_class_does_not_take_are_named(site: Worksite, package: str) -> None:
    assert package
    text = 'providers: {acme: {kind: "acme_models:Acme", options: {regin: eu}}}\n'
    result = await execute_task(request(site, model="acme:large"), environ=user_says(site, text))
    await site.clear()
    assert result.error == "model_unavailable"
    assert "unexpected keyword argument 'regin'" in result.message
    assert "`options` of acme" in result.hint


async def test_a_module_that_only_lies_in_the_current_folder_is_not_loaded(
    site: Worksite, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.repository / "evil_models.py").write_text("raise SystemExit('it was loaded')\n")
    monkeypatch.chdir(site.repository)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    text = 'providers: {acme: {kind: "evil_models:Acme"}}\n'
    wrong = await execute_task(request(site, model="acme:large"), environ=user_says(site, text))
    assert wrong.error == "usage"
    assert "lies in the current folder" in wrong.message
    assert "evil_models" not in sys.modules
