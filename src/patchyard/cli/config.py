"""`agents config`: each setting, where it came from, and whether the files are right."""

import os
from typing import Any

import click

from patchyard.cli.cataloguing import table, with_catalogue
from patchyard.cli.main import Group
from patchyard.cli.outcome import Outcome, format_option, say_warnings
from patchyard.cli.seeing import repository_settings, require_sense, settings_here
from patchyard.cli.setting_rows import named_parts, setting_rows
from patchyard.cli.values import plain
from patchyard.configuration import PREFIX
from patchyard.domain.effective import Setting
from patchyard.domain.effective_parts import effective_parts
from patchyard.domain.project import Project
from patchyard.domain.trust import Trust
from patchyard.engine.catalogue import Catalogue


@click.group(cls=Group, epilog="Example: agents config show --origin")
def config() -> None:
    """Settings: options, variables, project, user file, repository file, defaults."""


@config.command(epilog="Example: agents config show --origin --format json")
@click.option("--origin", is_flag=True, help="Say where each value came from.")
@format_option
def show(output_format: str, *, origin: bool) -> None:
    """Show the settings in force in this repository, with the defaults where nothing is said.

    A place to work that there is not exits 2 with file, line and column, or the variable.
    """

    async def job(catalogue: Catalogue) -> Outcome:
        from patchyard.intake_names import require_mode, require_places  # noqa: PLC0415 - not for all commands

        seen = await settings_here(catalogue)
        require_places(seen.configuration, holdings=seen.holdings, project=seen.project)
        require_mode(os.environ)
        values = dict(seen.configuration.values)
        values |= _placed(seen.project, values["execution_environment"])
        parts = effective_parts(seen.configuration.layers)
        rows = setting_rows(values, parts, has_origin=origin)
        told = {**values, **{name: one for key in parts for name, one in named_parts(key, parts)}}
        data = {
            "repository": seen.top,
            "trusted": seen.is_trusted,
            "ignored": list(seen.configuration.ignored),
            "settings": {name: _data(setting) for name, setting in told.items()},
        }
        say_warnings(seen.configuration.warnings)
        return Outcome(data=data, text=table(rows, empty=""))

    with_catalogue("config show", output_format, job)


def _placed(project: Project | None, said: Setting) -> dict[str, Setting]:
    """A project's environment is a level of the chain: a variable wins over it, no file does.

    AGENT_MODE is the last level, and wins over files.
    """
    from patchyard.intake_names import MODE, mode_of  # noqa: PLC0415 - not for all commands

    own = project.execution_environment if project else None
    if said.origin.startswith(PREFIX):
        return {}
    if project is not None and own is not None:
        found = Setting(value=own, origin=f"project {project.name}")
    elif mode := mode_of(os.environ):
        found = Setting(value=mode, origin=MODE)
    else:
        return {}
    return {"execution_environment": found}


def _data(setting: Setting) -> dict[str, Any]:
    return {"value": plain(setting.value), "origin": setting.origin}


@config.command(epilog="Example: agents config check")
@format_option
def check(output_format: str) -> None:
    """Check files and variables; a mistake exits 2 with file, line and column, or the variable."""

    async def job(catalogue: Catalogue) -> Outcome:
        seen = await settings_here(catalogue)
        everything = repository_settings(seen.top, trust=Trust(is_given=True), project=seen.project)
        everything.files.require_readable()
        from patchyard.casting import model_catalogue  # noqa: PLC0415 - only for this

        require_sense(
            everything.configuration, seen.top, holdings=seen.holdings, project=seen.project
        )
        model_catalogue(os.environ, seen.files.models())  # raises for what each models.yaml holds
        data = {
            "repository": seen.top,
            "files": sorted(seen.files.paths),
            "trusted": seen.is_trusted,
            "ignored": list(seen.configuration.ignored),
        }
        said = ("the settings are right", *seen.configuration.warnings)
        return Outcome(data=data, text="\n".join(said))

    with_catalogue("config check", output_format, job)


__all__ = ["config"]
