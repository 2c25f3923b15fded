"""A system call filter that is not in force keeps a place from starting, whatever was asked for."""

import struct

import pytest

from environments.yards import VM, Yard, marks_of
from patchyard.clients import bubblewrap, guests
from patchyard.clients.berths import require_filtered
from patchyard.domain.errors import EnvironmentUnavailable

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

ALL_ALLOWED = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)  # BPF_RET, SECCOMP_RET_ALLOW


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("process", marks=pytest.mark.service("bubblewrap")),
        pytest.param("ssh-process", marks=marks_of("ssh-process")),
        VM,
    ],
)
async def test_a_place_whose_filter_refuses_nothing_does_not_start(
    kind: str, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = yard.adapter(kind)
    for module in (bubblewrap, guests):
        monkeypatch.setattr(module, "filter_program", lambda: ALL_ALLOWED)
    with pytest.raises(EnvironmentUnavailable, match="Seccomp: clone3 is not refused") as refused:
        await adapter.start(yard.spec())
    assert "less walls than asked" in refused.value.message
    assert refused.value.hint
    assert list(yard.station.runtime.glob("0*")) == []


def test_a_toolbox_that_does_not_tell_of_its_filter_is_refused() -> None:
    require_filtered({"walls": {"unrefused": []}}, "the sandbox")
    with pytest.raises(EnvironmentUnavailable, match=r"the sandbox has .* which nothing tells of"):
        require_filtered({}, "the sandbox")
