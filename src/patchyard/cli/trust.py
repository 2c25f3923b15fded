"""`agents trust`: what a repository's own settings may decide."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

import click

from patchyard.cli.cataloguing import checkout_of, with_catalogue
from patchyard.cli.outcome import Outcome, format_option, one_line
from patchyard.cli.seeing import repository_settings
from patchyard.domain.errors import UsageError
from patchyard.engine.catalogue import Catalogue


@click.command(epilog="Example: agents trust . --revoke")
@click.argument("path", default=".")
@click.option("--revoke", is_flag=True, help="Take the trust back.")
@format_option
def trust(path: str, output_format: str, *, revoke: bool) -> None:
    """Let the settings of the repository at PATH decide, as long as they stay as they are.

    They may then choose environments, mounts, variables, weaker limits and models (which providers
    are asked, and which variables hold their keys), but never the kind `host`. Any change to a
    file in .patchyard/ makes the trust void.
    """

    async def job(catalogue: Catalogue) -> Outcome:
        top = checkout_of(path)
        if revoke:
            had = await catalogue.revoke(top)
            said = f"{top} is trusted no longer" if had else f"{top} was not trusted"
            return Outcome(data={"path": top, "trusted": False, "was_trusted": had}, text=said)
        holdings = await catalogue.holdings()
        project = holdings.project_of(top)
        linked = project.linked(holdings.resources) if project else ()
        seen = repository_settings(top, is_trusted=True, linked=linked)
        seen.files.require_readable()
        seen.files.require_hashed()
        if not seen.files.digest:
            raise UsageError(
                f"{top} has no settings to trust",
                hint="`agents init` writes .patchyard/config.yaml",
            )
        models = _models(seen.files.models())
        await catalogue.trust(top, seen.files.digest)
        names = sorted(seen.files.paths)
        data = {
            "path": top,
            "trusted": True,
            "digest": seen.files.digest,
            "files": names,
            "models": models,
            "ignored": list(seen.configuration.ignored),
        }
        said = f"{top} is trusted: {one_line(', '.join(names))} as they are now"
        lines = [one_line(line) for each in models for line in _told(each)]
        return Outcome(data=data, text="\n".join((said, *lines, *seen.configuration.warnings)))

    with_catalogue("trust", output_format, job)


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
