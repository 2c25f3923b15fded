"""`agents trust`: what a repository's own settings may decide."""

import click

from patchyard.cli.cataloguing import checkout_of, with_catalogue
from patchyard.cli.outcome import Outcome, format_option
from patchyard.cli.seeing import repository_settings
from patchyard.domain.errors import UsageError
from patchyard.engine.catalogue import Catalogue


@click.command(epilog="Example: agents trust . --revoke")
@click.argument("path", default=".")
@click.option("--revoke", is_flag=True, help="Take the trust back.")
@format_option
def trust(path: str, output_format: str, *, revoke: bool) -> None:
    """Let the settings of the repository at PATH decide, as long as they stay as they are.

    They may then choose environments, mounts, variables, models and weaker limits, but never
    the kind `host`. Any change to a file in .patchyard/ makes the trust void.
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
        await catalogue.trust(top, seen.files.digest)
        names = sorted(seen.files.files)
        data = {
            "path": top,
            "trusted": True,
            "digest": seen.files.digest,
            "files": names,
            "ignored": list(seen.configuration.ignored),
        }
        said = f"{top} is trusted: {', '.join(names)} as they are now"
        return Outcome(data=data, text="\n".join((said, *seen.configuration.warnings)))

    with_catalogue("trust", output_format, job)


__all__ = ["trust"]
