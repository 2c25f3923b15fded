"""Schemas of others: what we refuse, an independent validator refuses too, and nothing blows up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from patchyard.domain.schemas import misfit, schema_problem

NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(-3, 3), st.text("xy", max_size=3)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
TYPE = st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts = {
        "type": st.one_of(TYPE, st.lists(TYPE, min_size=1, max_size=2, unique=True)),
        "properties": st.dictionaries(NAMES, inner, max_size=2),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": st.one_of(st.booleans(), inner),
        "patternProperties": st.dictionaries(st.just("^a"), inner, max_size=1),
        "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "enum": st.lists(LEAVES, min_size=1, max_size=3),
        "const": LEAVES,
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "oneOf": st.lists(inner, min_size=1, max_size=2),
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "minLength": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "minimum": st.integers(-1, 2),
        "maximum": st.integers(-1, 2),
        "$ref": st.sampled_from(["#/$defs/d", "#/$defs/none"]),
    }
    return st.fixed_dictionaries({}, optional=parts)


SCHEMAS = st.recursive(st.booleans(), _schemas, max_leaves=5)


@given(_schemas(SCHEMAS), VALUES)
def test_what_we_refuse_an_independent_validator_refuses_too(schema: Any, value: Any) -> None:
    whole = {**schema, "$defs": {"d": {"type": "string"}, "none": True}}
    assert schema_problem(whole) == ""
    if misfit(whole, value):
        assert not Draft202012Validator(whole).is_valid(value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "it needs `path`"),
        ({"path": 1}, "`path` must be of type string"),
        ({"path": "x", "pathh": 1}, "there is no `pathh`; it takes `path`, `mode`, `lines`, `to`"),
        ({"path": "x", "mode": "w"}, "`mode` must be one of 'r', 'a'"),
        ({"path": "x", "lines": [1, "2"]}, "`lines`[1] must be of type integer"),
        ({"path": "", "lines": []}, "`path` is less than 1"),
        ({"path": "x", "lines": [1] * 4}, "`lines` is more than 3"),
        ({"path": "x", "to": {"deep": False}}, "`to`.deep must be of type string"),
        ({"path": "x", "to": {"never": 1}}, "`to`.never must not be there"),
        ([], "it must be of type object"),
    ],
)
def test_a_misfit_says_what_to_write(value: Any, said: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1},
            "mode": {"enum": ["r", "a"]},
            "lines": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
            "to": {"properties": {"deep": {"$ref": "#/$defs/t~1"}, "never": False}},
        },
        "$defs": {"t/": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    }
    assert misfit(schema, value) == said


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ([], "a schema is no object"),
        ({"type": "text"}, "`type` cannot be 'text'"),
        ({"type": 7}, "`type` cannot be '7'"),
        ({"type": [{}]}, "`type` cannot be"),
        ({"$ref": "https://example.org/s"}, "`$ref` leads elsewhere"),
        ({"$ref": 1}, "`$ref` leads elsewhere"),
        ({"required": True}, "`required` is no list of names"),
        ({"enum": "a"}, "`enum` is no list"),
        ({"properties": []}, "`properties` is of another kind"),
        ({"anyOf": {}}, "`anyOf` is of another kind"),
        ({"minimum": "0"}, "`minimum` is of another kind"),
        ({"items": {"properties": {"a": {"not": {"type": "x"}}}}}, "`type` cannot be 'x'"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_reason(schema: Any, said: str) -> None:
    assert schema_problem(schema).startswith(said)


def test_a_schema_made_to_take_forever_does_not() -> None:
    doubling: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)
    }
    assert misfit({"$ref": "#/$defs/d0", "$defs": doubling}, {}) == ""
    assert misfit({"$ref": "#"}, {}) == ""
    deep: Any = {"type": "object"}
    for _ in range(40):
        deep = {"items": deep}
    assert "nested deeper" in schema_problem(deep)
    patterns = {"type": "string", "pattern": "(a+)+$"}
    assert misfit(patterns, "a" * 40 + "b") == ""
