"""A toolbox whose workspace lies at another path than the plan says: wraps one, and translates."""

from collections.abc import Mapping
from typing import Any

from patchyard.clients.path_mapping import PathMapping
from patchyard.contracts.environment import OnOutput, Toolbox
from patchyard.contracts.forwarding import ForwardingToolbox


class MappedToolbox(ForwardingToolbox):
    """contracts.environment.Toolbox, in the plan's own paths."""

    def __init__(self, toolbox: Toolbox, mapping: PathMapping) -> None:
        super().__init__(toolbox)
        self._mapping = mapping

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
    ) -> Mapping[str, Any]:
        """Run `op` once; see the contract."""
        meant = self._mapping.arguments(args)
        hearing = self._hearing(on_output)
        return self._mapping.result(await self.wrapped.call(call_id, op, meant, on_output=hearing))

    async def attach(
        self, call_id: str, *, on_output: OnOutput | None = None
    ) -> Mapping[str, Any] | None:
        """Wait for the result of an earlier call; see the contract."""
        result = await self.wrapped.attach(call_id, on_output=self._hearing(on_output))
        return None if result is None else self._mapping.result(result)

    def _hearing(self, on_output: OnOutput | None) -> OnOutput | None:
        """Return who translates output; a path that two pieces share stays as it came."""
        if on_output is None:
            return None

        def hear(stream: str, text: str) -> None:
            on_output(stream, self._mapping.text_outward(text))

        return hear


__all__ = ["MappedToolbox"]
