"""`agents trust`: what a repository's own settings may decide."""

import os
from collections.abc import Mapping

import click

from patchyard.cli.cataloguing import checkout_of, with_catalogue
from patchyard.cli.outcome import Outcome, format_option, visible
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
        if not seen.files.digest:
            raise UsageError(
                f"{top} has no settings to trust",
                hint="`agents init` writes .patchyard/config.yaml",
            )
        providers = _providers(seen.files.models())
        await catalogue.trust(top, seen.files.digest)
        names = sorted(seen.files.files)
        data = {
            "path": top,
            "trusted": True,
            "digest": seen.files.digest,
            "files": names,
            "providers": providers,
            "ignored": list(seen.configuration.ignored),
        }
        said = f"{top} is trusted: {', '.join(names)} as they are now"
        lines = [visible(_told(each)) for each in providers]
        return Outcome(data=data, text="\n".join((said, *lines, *seen.configuration.warnings)))

    with_catalogue("trust", output_format, job)


def _providers(models: str) -> list[dict[str, str]]:
    """Return where a repository's `models.yaml` sends code, and with which variables' keys."""
    from patchyard.casting import model_catalogue  # noqa: PLC0415 - heavy, and only for this
    from patchyard.clients.http_trouble import shown  # noqa: PLC0415 - likewise

    own = model_catalogue(os.environ).providers
    return [
        {"provider": name, "base_url": shown(each.base_url), "api_key_env": each.api_key_env}
        for name, each in model_catalogue(os.environ, models).providers.items()
        if name not in own
    ]


def _told(provider: Mapping[str, str]) -> str:
    key = provider["api_key_env"]
    ending = f", with the key in {key}" if key else ""
    return f"it may send code to {provider['provider']} at {provider['base_url']}{ending}"


__all__ = ["trust"]
