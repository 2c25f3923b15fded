"""How long this installation keeps things, and a pass of the janitor by itself."""

from collections.abc import Mapping

from patchyard.configuration import user_layers, variable_layers
from patchyard.domain.keeping import Rules, rules_of


def rules(environ: Mapping[str, str]) -> Rules:
    """Return what variables and the user's file say; a repository has no say in it.

    Raises UsageError with file, line and column.
    """
    layers = [*variable_layers(environ), *user_layers(environ)]
    return rules_of([layer.settings.keep for layer in layers if layer.settings.keep is not None])


__all__ = ["rules"]
