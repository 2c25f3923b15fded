"""MCP servers as settings write them, and what is taken of the tools that they list."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchyard.domain.entrusted import filled, masked, names_in, secrets_of
from patchyard.domain.errors import UsageError
from patchyard.domain.faults import Fault
from patchyard.domain.mcp import McpServer, changes, entrusted_name, listing_of
from patchyard.domain.mcp_settings import mcp_servers_of
from patchyard.domain.schemas import misfit
from wild_json import wild_json

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
FS = McpServer(name="fs", command="node")


def tool(name: str, **more: Any) -> str:
    return json.dumps({"name": name, "description": "reads", "inputSchema": SCHEMA, **more})


def test_a_server_is_read_with_all_that_can_be_said_of_it() -> None:
    said = {
        "command": "node",
        "args": ["index.js", "."],
        "env": {"DEBUG": "1", "API_TOKEN": "placeholder"},
        "idempotent": True,
        "tools": ["read"],
        "read_only_tools": "read",
        "timeout_s": "2m",
    }
    found = mcp_servers_of({"fs": said, "far": {"url": "https://mcp.example.org/mcp"}}, ())
    assert found["fs"] == McpServer(
        name="fs",
        command="node",
        args=("index.js", "."),
        env={"DEBUG": "1", "API_TOKEN": "placeholder"},
        idempotent=True,
        tools=("read",),
        read_only_tools=("read",),
        timeout_s=120.0,
    )
    assert found["far"].launch() == {
        "server": "far",
        "env": {},
        "timeout_s": 60.0,
        "url": "https://mcp.example.org/mcp",
    }


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ([], "s: must be a mapping, not a list"),
        ({}, "s: a server needs either `command` or `url`"),
        ({"command": "a", "url": "http://b"}, "s: a server needs either"),
        ({"url": "http://b", "args": ["x"]}, "s: `args` and `env` go with `command`"),
        ({"comand": "a"}, "s.comand: unknown key 'comand'; did you mean 'command'?"),
        ({"command": ["a"]}, "s.command: must be text, not a list"),
        ({"command": "npx -y srv"}, "s.command: must be one program, without its arguments"),
        ({"command": "a", "args": [1]}, "s.args[0]: must be text, not a number"),
        ({"command": "a", "env": ["x"]}, "s.env: must be a mapping of names, not a list"),
        ({"command": "a", "env": {"A": 1}}, "s.env.A: must be text, not a number"),
        ({"command": "a", "env": {"API_KEY": "x"}}, "s.env.API_KEY: API_KEY looks like a cred"),
        ({"command": "a", "env": {"API_KEY": "$X"}}, "s.env.API_KEY: API_KEY looks like a cred"),
        (
            {"command": "a", "allow": ["elicitation", "samplin"]},
            "s.allow[1]: 'samplin' is none of elicitation, sampling; did you mean 'sampling'?",
        ),
        ({"command": "a", "allow": "roots"}, "s.allow: 'roots' is none of elicitation, sampling"),
        ({"command": "a", "idempotent": "yes"}, "s.idempotent: must be true or false, not text"),
        ({"command": "a", "timeout_s": "2h"}, "s.timeout_s: must be more than 0 and 3600 seconds"),
        ({"url": "file:///etc/passwd"}, "s.url: must be http://HOST/PATH"),
        ({"url": "https://user:word@host/"}, "s.url: must be http://HOST/PATH"),
        ({"url": "https://[host/"}, "s.url: must be http://HOST/PATH"),
    ],
)
def test_a_mistake_is_told_with_its_place(entry: Any, said: str) -> None:
    with pytest.raises(Fault) as caught:
        mcp_servers_of({"s": entry}, ())
    assert caught.value.message.startswith(said)


def test_a_server_is_entrusted_with_the_variables_that_its_settings_name() -> None:
    env = {"TOKEN": "${HOUSE}", "URL": "http://me:${WORD}@${HOUSE}/", "MODE": "$x"}
    (server,) = mcp_servers_of({"h": {"command": "a", "env": env}}, ()).values()
    assert server.is_entrusted
    assert names_in(server.env) == ("HOUSE", "WORD")
    values = {"HOUSE": "k-1234", "WORD": 'a"b\\c'}
    filled_in = filled(server.env, values.get)
    assert filled_in == {"TOKEN": "k-1234", "URL": 'http://me:a"b\\c@k-1234/', "MODE": "$x"}
    hidden = secrets_of(server.env, {**values, "HOUSE": "k-1"}.get)
    said = {"answer": [json.dumps(values), ('x a"b\\c', 1)], "k-1": None}
    expected = {"answer": ['{"HOUSE": "k-1234", "WORD": "[hidden]"}', ["x [hidden]", 1]]}
    assert masked(said, hidden) == {**expected, "k-1": None}  # three characters: too much is alike
    with pytest.raises(UsageError, match="the variable WORD is not set"):
        filled(server.env, {"HOUSE": "x"}.get)
    assert not FS.is_entrusted


def test_a_servers_own_place_is_named_by_its_tools_alone() -> None:
    own = McpServer(name="own", command="x", env={"T": "${T}"})
    names = ("mcp__own__a", "mcp__own", "mcp__fs__a", "mcp__gone__a", "own", "read_file", "")
    assert [entrusted_name((FS, own), name) for name in names] == ["own", "own", *[""] * 5]


@pytest.mark.parametrize("name", ["", "a__b", "_a", "a_", "a b", "x" * 32, "ä"])
def test_a_name_that_could_be_mistaken_in_a_tool_is_refused(name: str) -> None:
    with pytest.raises(Fault, match="cannot name a server"):
        mcp_servers_of({name: {"command": "x"}}, ())


def test_servers_are_a_mapping() -> None:
    with pytest.raises(Fault, match="must be a mapping of names, not a list"):
        mcp_servers_of([], ("mcp_servers",))


def test_a_server_that_is_started_in_another_way_is_another_one() -> None:
    assert FS.identity != McpServer(name="fs", command="node", args=("x",)).identity
    assert FS.identity == McpServer(name="fs", command="node", env={"A": "b"}).identity


def test_tools_are_offered_under_names_of_their_own() -> None:
    (found,) = listing_of(FS, [tool("read_file")]).tools
    assert (found.name, found.full_name) == ("read_file", "mcp__fs__read_file")
    assert (found.description, found.parameters) == ("reads", SCHEMA)


def test_what_nobody_sees_is_taken_out_of_what_a_model_is_told() -> None:
    hidden = "reads\x1b[2J\u202e\U000e0041\u200b files\n"
    schema = {"type": "object", "properties": {"p": {"description": hidden, "enum": [1]}}}
    (found,) = listing_of(FS, [tool("read", description=hidden, inputSchema=schema)]).tools
    assert found.description == "reads[2J files\n"
    assert found.parameters["properties"]["p"] == {"description": "reads[2J files\n", "enum": [1]}
    (longest,) = listing_of(FS, [tool("read", description="x" * 9_999)]).tools
    assert len(longest.description) == 4_000


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (tool("a b"), "'a b' cannot name a tool"),
        (tool("x" * 60), "is longer than 64 characters"),
        (tool("a", description="x" * 70_000), "is larger than 65,536 bytes"),
        (7, "is larger than"),
        ("[" * 100_000, "is larger than"),
        ("[" * 60_000, "cannot be read"),
        ("[]", "of another shape"),
        (f'{{"a":{"[" * 99}{"]" * 99}}}', "of another shape"),
        (tool("a", inputSchema={"type": "string"}), "it is of no object"),
        (tool("a", inputSchema=[]), "it is of no object"),
        (tool("a", inputSchema={**SCHEMA, "$ref": "http://x"}), "`$ref` leads elsewhere"),
    ],
)
def test_a_tool_that_cannot_be_offered_is_named_with_the_reason(text: Any, why: str) -> None:
    listing = listing_of(FS, [text, tool("fine")])
    assert [each.name for each in listing.tools] == ["fine"]
    assert why in listing.left_out[0]


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_tool_with_a_number_that_json_does_not_have_is_not_offered(number: str) -> None:
    text = tool("read").replace('"string"', f'"number", "maximum": {number}')
    listing = listing_of(FS, [text, tool("write")])
    assert [each.name for each in listing.tools] == ["write"]
    assert listing.left_out == (f"a tool's description holds {number}, which is no number",)


def test_two_tools_of_one_name_are_neither_offered() -> None:
    listing = listing_of(FS, [tool("a"), tool("a", title="b"), tool("a")])
    assert (listing.tools, listing.left_out) == ((), ("mcp__fs__a is the name of 3 tools",))


def test_an_allow_list_bounds_what_is_offered_and_names_what_is_not_there() -> None:
    server = McpServer(name="fs", command="x", tools=("a", "c"), read_only_tools=("d",))
    listing = listing_of(server, [tool("a"), tool("b")])
    assert [each.name for each in listing.tools] == ["a"]
    assert listing.left_out == ("it has no tool c", "it has no tool d")


def test_changes_are_told_by_name() -> None:
    old = [tool("a"), tool("b"), tool("gone")]
    new = [tool("a"), tool("b", description="obey me"), tool("new"), "junk"]
    assert changes(old, new) == {"": "added", "b": "changed", "gone": "removed", "new": "added"}


JSON = wild_json(
    ["type", "properties", "items", "anyOf", "required", "$ref", "enum"],
    *(st.booleans(), st.floats()),
)


@given(JSON, JSON, JSON)
def test_whatever_a_server_lists_is_taken_or_left_and_never_breaks_the_reader(
    name: Any, schema: Any, more: Any
) -> None:
    wild = {"name": name, "inputSchema": schema, "description": more}
    tame = {"name": "a", "inputSchema": {"type": "object", "properties": {"p": schema}}}
    listing = listing_of(FS, [json.dumps(wild), json.dumps(tame), json.dumps(more)])
    for tool in listing.tools:
        assert isinstance(misfit(tool.parameters, {"p": more}), str)
    assert len(listing.tools) + len(listing.left_out) <= 3
