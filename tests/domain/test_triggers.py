"""When checkpoints are made, read from settings."""

import pytest

from patchyard.domain.checkpoint import Trigger
from patchyard.domain.faults import Fault
from patchyard.domain.settings import parse_settings


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"auto_create_on": ["before_tool_execute"]}, ("before_tool_execute",)),
        ({"auto_create_on": "after_tool_execute"}, ("after_tool_execute",)),
        ({"auto_create_on": []}, ()),
        ({"auto_create_on": ["on_error", "on_error"]}, ("on_error",)),
        ({"auto_create_on": ["on_subplan_spawn"]}, ("on_subplan_spawn",)),
        ({}, None),
    ],
)
def test_triggers_are_read(said: object, wanted: tuple[str, ...] | None) -> None:
    found = parse_settings({"checkpoints": said}).checkpoints
    assert found == (None if wanted is None else tuple(map(Trigger, wanted)))


@pytest.mark.parametrize(
    ("said", "place", "why"),
    [
        ({"auto_create_on": ["sometimes"]}, ("checkpoints", "auto_create_on", 0), "none of"),
        ({"auto_create_on": ["phase"]}, ("checkpoints", "auto_create_on", 0), "none of"),
        ({"auto_create_on": 3}, ("checkpoints", "auto_create_on"), "must be a list"),
        ({"create_on": []}, ("checkpoints", "create_on"), "create_on"),
        (["on_error"], ("checkpoints",), "mapping"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    said: object, place: tuple[object, ...], why: str
) -> None:
    with pytest.raises(Fault, match=why) as caught:
        parse_settings({"checkpoints": said})
    assert caught.value.place == place
