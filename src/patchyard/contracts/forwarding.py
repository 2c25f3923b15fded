"""What every wrapper of a toolbox begins with: all is passed on to the one that it wraps."""

from collections.abc import Mapping
from typing import Any

from patchyard.contracts.environment import OnOutput, Toolbox


class ForwardingToolbox:
    """contracts.environment.Toolbox over another one; a wrapper overrides what it changes."""

    def __init__(self, wrapped: Toolbox) -> None:
        self.wrapped = wrapped

    async def call(
        self,
        call_id: str,
        op: str,
        args: Mapping[str, Any],
        *,
        on_output: OnOutput | None = None,
    ) -> Mapping[str, Any]:
        """Run `op` once under `call_id` and return its result; see the contract."""
        return await self.wrapped.call(call_id, op, args, on_output=on_output)

    async def attach(
        self, call_id: str, *, on_output: OnOutput | None = None
    ) -> Mapping[str, Any] | None:
        """Wait for the result of an earlier call; None when the toolbox does not know it."""
        return await self.wrapped.attach(call_id, on_output=on_output)

    async def cancel(self, call_id: str) -> None:
        """Kill the call's whole process tree; its result then says CANCELLED."""
        await self.wrapped.cancel(call_id)

    async def forget(self, call_ids: tuple[str, ...]) -> None:
        """Say that these results are journalled; the toolbox may drop them."""
        await self.wrapped.forget(call_ids)

    async def close(self) -> None:
        """Drop the connection; the toolbox lives on for its grace time."""
        await self.wrapped.close()


__all__ = ["ForwardingToolbox"]
