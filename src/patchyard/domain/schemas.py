"""JSON Schema as far as tools of others need it: is it one, and does a value fit. Pure.

Whoever wrote the schema is not trusted: what is looked at is bounded, no pattern is run, nothing
is fetched. A keyword that is not known here is left to the server; what is refused here, every
validator refuses.
"""

from collections.abc import Callable, Mapping
from typing import Any

DEEPEST = 24  # that schemas and values are followed
STEPS = 20_000  # of looking, for one value

Check = Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


TYPES: Mapping[str, Check] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and value == value // 1,
    "null": lambda value: value is None,
    "number": _is_number,
    "object": lambda value: isinstance(value, Mapping),
    "string": lambda value: isinstance(value, str),
}
BY_NAME = ("$defs", "definitions", "patternProperties", "properties")  # schemas by some name
ONE = ("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then")
SEVERAL = ("allOf", "anyOf", "oneOf", "prefixItems")
NUMBERS = ("maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum")


def schema_problem(schema: Any, *, depth: int = 0) -> str:
    """Return why `schema` is no JSON Schema that can be used; empty: it can."""
    if isinstance(schema, bool):
        return ""
    if not isinstance(schema, Mapping):
        return "a schema is no object"
    if depth > DEEPEST:
        return f"it is nested deeper than {DEEPEST} levels"
    own = _keywords_problem(schema)
    if own:
        return own
    return next(filter(None, (schema_problem(s, depth=depth + 1) for s in _inner(schema))), "")


def _keywords_problem(schema: Mapping[str, Any]) -> str:
    types = schema.get("type", [])
    listed = [types] if isinstance(types, str) else types
    if not _are_texts(listed) or not set(listed) <= TYPES.keys():
        return f"`type` cannot be {str(types)[:40]!r}"
    reference = schema.get("$ref", "#")
    if not isinstance(reference, str) or not reference.startswith("#"):
        return "`$ref` leads elsewhere"
    if not _are_texts(schema.get("required", [])):
        return "`required` is no list of names"
    if not isinstance(schema.get("enum", []), list):
        return "`enum` is no list"
    wrong = [name for name in NUMBERS if name in schema and not _is_number(schema[name])]
    wrong += [k for k in BY_NAME if k in schema and not isinstance(schema[k], Mapping)]
    wrong += [k for k in SEVERAL if k in schema and not isinstance(schema[k], list)]
    return f"`{wrong[0]}` is of another kind" if wrong else ""


def _inner(schema: Mapping[str, Any]) -> list[Any]:
    found = [schema[name] for name in ONE if name in schema and not isinstance(schema[name], list)]
    for name in SEVERAL:
        found += schema.get(name, ())
    for name in BY_NAME:
        found += schema.get(name, {}).values()
    return found


def misfit(schema: Mapping[str, Any], value: Any) -> str:
    """Return in what `value` does not fit a usable `schema`; empty: nothing was found."""
    return _Looking(schema).at(schema, value, "", DEEPEST)


class _Looking:
    """One value held against one schema, for a bounded number of steps."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = STEPS

    def at(self, schema: Any, value: Any, where: str, depth: int) -> str:
        self._left -= 1
        if depth == 0 or self._left < 0 or schema is True:
            return ""  # the server looks, too
        if schema is False:
            return f"{where or 'it'} must not be there"
        if "$ref" in schema:
            return self.at(self._meant(schema["$ref"]), value, where, depth - 1)
        return (
            _own_misfit(schema, value, where or "it")
            or self._parts(schema, value, where, depth)
            or self._choices(schema, value, where, depth)
        )

    def _meant(self, reference: str) -> Any:
        found: Any = self._root
        for part in reference.lstrip("#").strip("/").split("/"):
            if part:
                key = part.replace("~1", "/").replace("~0", "~")
                found = found.get(key) if isinstance(found, Mapping) else None
        return found if isinstance(found, (Mapping, bool)) else True

    def _parts(self, schema: Mapping[str, Any], value: Any, where: str, depth: int) -> str:
        if isinstance(value, Mapping):
            return self._members(schema, value, where, depth)
        items = schema.get("items", True)
        if isinstance(value, list) and isinstance(items, (Mapping, bool)):
            first = len(schema.get("prefixItems", ()))
            for number, item in enumerate(value[first:], first):
                found = self.at(items, item, f"{where}[{number}]", depth - 1)
                if found:
                    return found
        return ""

    def _members(
        self, schema: Mapping[str, Any], value: Mapping[str, Any], where: str, depth: int
    ) -> str:
        known = schema.get("properties", {})
        missing = [name for name in schema.get("required", ()) if name not in value]
        if missing:
            return f"{where or 'it'} needs `{missing[0]}`"
        has_patterns = bool(schema.get("patternProperties"))
        others = True if has_patterns else schema.get("additionalProperties", True)
        for name, item in value.items():
            inside = f"{where}.{name}" if where else f"`{name}`"
            if name not in known and others is False:
                listed = ", ".join(f"`{each}`" for each in known) or "nothing"
                return f"there is no {inside}; it takes {listed}"
            found = self.at(known.get(name, others), item, inside, depth - 1)
            if found:
                return found
        return ""

    def _choices(self, schema: Mapping[str, Any], value: Any, where: str, depth: int) -> str:
        for each in schema.get("allOf", ()):
            found = self.at(each, value, where, depth - 1)
            if found:
                return found
        for name in ("anyOf", "oneOf"):
            said = [self.at(each, value, where, depth - 1) for each in schema.get(name, ())]
            if said and all(said):
                return said[0]
        return ""


def _own_misfit(schema: Mapping[str, Any], value: Any, where: str) -> str:
    types = schema.get("type")
    listed = [types] if isinstance(types, str) else types
    if listed and not any(TYPES[name](value) for name in listed):
        return f"{where} must be of type {' or '.join(listed)}"
    choices = schema.get("enum")
    if choices is not None and value not in choices:
        return f"{where} must be one of {', '.join(map(repr, choices[:20]))}"
    if "const" in schema and value != schema["const"]:
        return f"{where} must be {schema['const']!r}"
    return _size_misfit(schema, value, where)


def _size_misfit(schema: Mapping[str, Any], value: Any, where: str) -> str:
    if isinstance(value, (str, list)):
        what = "Length" if isinstance(value, str) else "Items"
        size, least, most = len(value), schema.get(f"min{what}"), schema.get(f"max{what}")
    elif _is_number(value):
        size, least, most = value, schema.get("minimum"), schema.get("maximum")
    else:
        return ""
    if least is not None and size < least:
        return f"{where} is less than {least}"
    return f"{where} is more than {most}" if most is not None and size > most else ""


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


__all__ = ["DEEPEST", "STEPS", "TYPES", "misfit", "schema_problem"]
