"""Whether setup commands are run where a plan works; where not, that is said before it begins."""

from patchyard.configuration import Configuration
from patchyard.domain.environment import ExecutionEnvironment
from patchyard.domain.errors import UsageError
from patchyard.domain.plan import PlanSpec
from patchyard.engine.setup import WITH_OWN_PATHS, not_run_on
from patchyard.engine.sites import general_kind, may_have_setup


def require_setup_runs(spec: PlanSpec, settings: Configuration) -> tuple[str, ...]:
    """Return what a person is told of setup commands that are not run.

    Raises UsageError where an option asked for them on another host.
    """
    kind = general_kind(spec)
    if kind not in WITH_OWN_PATHS or not may_have_setup(spec):
        return ()
    why = not_run_on(spec)
    if kind != ExecutionEnvironment.SSH or not settings.said_by("setup", "option"):
        return (why,)
    raise UsageError(
        f"--setup means nothing on {kind}: {why}",
        hint="install it on that host and leave --setup out (`--setup ''` also leaves out what the"
        " project says), or work here: --in process",
    )


__all__ = ["require_setup_runs"]
