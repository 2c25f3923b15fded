"""A git token for `prepare_workspace`: told to the repository's host alone, and left nowhere."""

from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from execution.premises import Premises
from forges import Forge, forging, upstream
from models.certificates import served_as
from patchyard.execution import TaskConfig, WorkspaceManager, create_workspace_manager

pytestmark = pytest.mark.anyio

TOKEN = "ghp_qwertzuiop0123456789"
BASIC = "Basic " + b64encode(f"x-access-token:{TOKEN}".encode()).decode()


@pytest.fixture
def forges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Forge, Forge]]:
    """Two hosts over the same repositories; the first wants a token."""
    upstream(tmp_path / "forge/shop.git")
    authority, context = served_as("localhost", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    monkeypatch.setenv("FORGE_TOKEN", TOKEN)
    monkeypatch.setenv("OTHER_TOKEN", "another-0123456789")
    with (
        forging(tmp_path / "forge", context) as first,
        forging(tmp_path / "forge", context) as second,
    ):
        first.wanted = BASIC
        yield first, second


@pytest.fixture
async def local(premises: Premises) -> AsyncIterator[WorkspaceManager]:
    del premises
    async with create_workspace_manager("local") as made:
        yield made


def files_with(secret: str, folder: Path) -> list[Path]:
    """Return the files below a folder that hold a secret."""
    found = (each for each in folder.rglob("*") if each.is_file() and not each.is_symlink())
    return [each for each in found if secret.encode() in each.read_bytes()]


async def test_a_token_opens_its_host_and_lies_nowhere_after_that(
    local: WorkspaceManager, premises: Premises, forges: tuple[Forge, Forge]
) -> None:
    task = TaskConfig(id="task-1", repo_url=f"{forges[0].url}/shop.git")
    refused = await local.prepare_workspace(task)
    assert (refused.success, refused.error) == (False, "UNAVAILABLE")
    assert "localhost does not give" in refused.message
    assert "token_env=NAME" in refused.message
    assert "CLONE_SECRETS" not in refused.message  # a setting of commands
    prepared = await local.prepare_workspace(task, token_env="FORGE_TOKEN")
    assert prepared.success, prepared.message
    assert (Path(prepared.workspace_path) / "a.txt").read_text() == "one\n"
    assert forges[0].told == {"", BASIC}
    for secret in (TOKEN, BASIC.removeprefix("Basic ")):
        assert files_with(secret, premises.folder) == []
        assert secret not in repr(prepared)


async def test_a_wrong_token_is_refused_and_not_said(
    local: WorkspaceManager, forges: tuple[Forge, Forge]
) -> None:
    task = TaskConfig(id="task-1", repo_url=f"{forges[0].url}/shop.git")
    refused = await local.prepare_workspace(task, token_env="OTHER_TOKEN")
    assert (refused.success, refused.error) == (False, "UNAVAILABLE")
    assert "another-0123456789" not in repr(refused)
    assert "the token that OTHER_TOKEN holds" in refused.message
    forges[0].parrots = True
    parroted = await local.prepare_workspace(task, token_env="FORGE_TOKEN")
    assert "(FORGE_TOKEN)" in parroted.message
    for secret in (TOKEN, BASIC.removeprefix("Basic ")):
        assert secret not in repr(parroted)


async def test_a_token_follows_no_redirect_to_another_host(
    local: WorkspaceManager, forges: tuple[Forge, Forge]
) -> None:
    first, second = forges
    first.redirects["/"] = f"{second.url}/"
    task = TaskConfig(id="task-1", repo_url=f"{first.url}/shop.git")
    refused = await local.prepare_workspace(task, token_env="FORGE_TOKEN")
    assert (refused.success, refused.error) == (False, "UNAVAILABLE")
    assert "lies elsewhere" in refused.message
    assert (first.told, second.seen) == ({BASIC}, [])
    followed = await local.prepare_workspace(task)  # without one there is nothing to be told
    assert followed.success, followed.message
    assert second.told == {""}


@pytest.mark.parametrize(
    ("url", "name", "said"),
    [
        ("ssh://git@localhost/shop.git", "FORGE_TOKEN", "a token is for https"),
        ("/srv/shop", "FORGE_TOKEN", "a token is for https"),
        ("https://localhost/shop.git", "NO_SUCH_VARIABLE", "no variable NO_SUCH_VARIABLE"),
        ("https://localhost/shop.git", "ghp-no-name", "no name of a variable"),
        ("https://localhost/shop.git", "ghp_the_token_itself", "no variable of that name"),
    ],
)
async def test_a_token_that_cannot_be_given_is_refused_before_anything_is_asked(
    local: WorkspaceManager, forges: tuple[Forge, Forge], url: str, name: str, said: str
) -> None:
    task = TaskConfig(id="task-1", repo_url=url)
    refused = await local.prepare_workspace(task, token_env=name)
    assert (refused.success, refused.error) == (False, "VALIDATION_ERROR")
    assert said in refused.message
    assert "ghp" not in refused.message
    assert forges[0].seen == []
