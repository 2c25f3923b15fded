"""Pictures in results: a toolbox's and a server's word, checked before a model is shown them."""

import json
from typing import Any

import pytest

from patchyard.domain.mcp import ListedTool, McpServer
from patchyard.domain.messages import Image
from patchyard.domain.tooling import ToolResult
from patchyard.tools.claims import IMAGE_CHARS, IMAGES_AT_ONCE
from patchyard.tools.mcp import served
from patchyard.tools.toolset import toolset

ROW = {"media_type": "image/png", "data": "aGk="}


def result(**data: Any) -> ToolResult:
    return ToolResult(call_id="c", success=False, message="m", error="BINARY_FILE", data=data)


@pytest.mark.parametrize(
    "images",
    [
        None,
        "aGk=",
        [7, {}],
        [{**ROW, "media_type": "image/svg+xml"}],
        [{**ROW, "data": "no base64"}],
        [{**ROW, "data": 'aGk="'}],
        [{**ROW, "data": "a" * (IMAGE_CHARS + 1)}],
    ],
)
def test_what_is_no_picture_is_passed_over(images: Any) -> None:
    assert toolset("/w")["read_file"].images(result(images=images)) == ()


def test_pictures_are_taken_as_far_as_they_are_few() -> None:
    found = toolset("/w")["read_file"].images(result(images=[ROW] * (IMAGES_AT_ONCE + 1)))
    assert found == (Image(media_type="image/png", data="aGk="),) * IMAGES_AT_ONCE
    assert toolset("/w")["grep_search"].images(result()) == ()


def test_a_servers_pictures_are_its_blocks_of_that_type() -> None:
    listed = ListedTool(name="t", full_name="mcp__s__t", description="", parameters={}, pin="")
    tool = served(McpServer(name="s", command="true"), listed)
    block = {"type": "image", "mimeType": "image/png", "data": "aGk="}
    text = {"type": "text", "text": "hi", "mimeType": "image/png", "data": "aGk="}
    whole = result(answer=json.dumps({"content": [text, block]}))
    assert tool.images(whole) == (Image(media_type="image/png", data="aGk="),)
    for answer in ("", "[1]", json.dumps({"content": [block]})[:-9]):
        assert tool.images(result(answer=answer)) == ()
