"""`agents trust`: what a repository's own settings may decide."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from patchyard.cli.cataloguing import checkout_of, with_catalogue
from patchyard.cli.granting import devcontainer_told, granted, grants_data, grants_told
from patchyard.cli.outcome import Outcome, format_option, one_line
from patchyard.cli.seeing import repository_settings
from patchyard.clients.glimpse import glimpse
from patchyard.configuration import RepositoryFiles, repository_files
from patchyard.domain.devcontainer import places_in
from patchyard.domain.devcontainer_grants import DevcontainerGrant, grant_of
from patchyard.domain.errors import UsageError
from patchyard.domain.trust import Trust
from patchyard.engine.catalogue import Catalogue


@click.command(epilog="Example: agents trust . --revoke")
@click.argument("path", default=".")
@click.option("--revoke", is_flag=True, help="Take the trust back.")
@format_option
def trust(path: str, output_format: str, *, revoke: bool) -> None:
    """Let the settings of the repository at PATH decide, as long as they stay as they are.

    They may then choose environments, mounts, variables, hosts, secrets, MCP servers, weaker limits
    and models (which providers are asked, and which variables hold their keys), but never the kind
    `host`. All of it is said. Any change below .patchyard/, of a devcontainer.json or of what its
    image is built by (Dockerfile, own features) makes the trust void; of files that a Dockerfile
    copies in it does not.
    """

    async def job(catalogue: Catalogue) -> Outcome:
        top = checkout_of(path)
        if revoke:
            had = await catalogue.revoke(top)
            said = f"{top} is trusted no longer" if had else f"{top} was not trusted"
            return Outcome(data={"path": top, "trusted": False, "was_trusted": had}, text=said)
        return await _trusted(catalogue, top)

    with_catalogue("trust", output_format, job)


async def _trusted(catalogue: Catalogue, top: str) -> Outcome:
    holdings = await catalogue.holdings()
    project = holdings.project_of(top)
    linked = project.linked(holdings.resources) if project else ()
    files = repository_files(glimpse(Path(top), None))
    files.require_readable()
    files.require_hashed()
    before, seen = (
        repository_settings(top, trust=each, linked=linked, files=files).configuration
        for each in (Trust(), Trust(is_given=True))
    )
    if not files.digest:
        raise UsageError(
            f"{top} has no settings to trust",
            hint="`agents init` writes .patchyard/config.yaml",
        )
    grants, devcontainers = granted(seen, before.ignored), _devcontainers(top, files)
    models = _models(files.models())
    await catalogue.trust(top, files.digest, files.marks)
    names = sorted(files.paths)
    data = {
        "path": top,
        "trusted": True,
        "digest": files.digest,
        "files": names,
        "grants": grants_data(grants),
        "devcontainers": [asdict(each) for each in devcontainers],
        "models": models,
        "ignored": list(seen.ignored),
    }
    lines = (
        f"{top} is trusted: {', '.join(names)} as they are now",
        *grants_told(grants),
        *(line for each in devcontainers for line in devcontainer_told(each, os.environ)),
        *(line for each in models for line in _told(each)),
    )
    return Outcome(data=data, text="\n".join((*map(one_line, lines), *seen.warnings)))


def _devcontainers(top: str, files: RepositoryFiles) -> list[DevcontainerGrant]:
    """Return what each devcontainer.json has of this machine, by the texts that trust covers."""
    sight = glimpse(Path(top), None)
    found = (path for path in places_in(sight.names(), sight.names) if path in files.files)
    return [
        grant_of(files.files[path].decode("utf-8", "replace"), path=path, checkout=top, files=sight)
        for path in found
    ]


def _models(text: str) -> list[dict[str, Any]]:
    """Return where a repository's `models.yaml` sends code, and with which variables' keys."""
    from patchyard.casting import destinations_of  # noqa: PLC0415 - heavy, and only for this

    if not text:
        return []
    return [
        {
            "environment": each.environment,
            "providers": [
                {"provider": name, "base_url": own.base_url, "api_key_env": own.api_key_env}
                for name, own in each.providers.items()
            ],
            "roles": {name: list(chain) for name, chain in each.chains.items()},
        }
        for each in destinations_of(os.environ, text)
    ]


def _told(models: Mapping[str, Any]) -> Iterator[str]:
    stage = f"in environment {models['environment']} " if models["environment"] else ""
    for each in models["providers"]:
        key = each["api_key_env"]
        ending = f", with the key in {key}" if key else ""
        yield f"{stage}{each['provider']} is {each['base_url']}{ending}"
    for name, chain in models["roles"].items():
        yield f"{stage}{name} asks {', then '.join(chain)}"


__all__ = ["trust"]
