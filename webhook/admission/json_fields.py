"""Typed reads of raw JSON: a missing or null field is empty, a wrong type is an error that names the field.

The rule it owns: a pod stays raw JSON, so that fields that we do not know survive.  Every read of a rule goes through
here.
"""

from typing import Any

from webhook.errors import MalformedObject

Json = dict[str, Any]
"""A Kubernetes object as parsed; it is never turned into a type of ours."""
_NOTHING: Json = {}


def _wrong(key: str, wanted: str, found: object) -> MalformedObject:
    return MalformedObject(f"the field {key[:80]!r} must be {wanted}, not {type(found).__name__}")


def read_map(holder: Json, key: str) -> Json:
    """Return the object under `key`, or an empty one; never change the result: the empty one is shared."""
    value = holder.get(key)
    if value is None:
        return _NOTHING
    if type(value) is not dict:
        raise _wrong(key, "an object", value)
    return value


def read_list(holder: Json, key: str) -> list[Any]:
    """Return the list under `key`, or an empty one."""
    value = holder.get(key)
    if value is None:
        return []
    if type(value) is not list:
        raise _wrong(key, "a list", value)
    return value


def read_maps(holder: Json, key: str) -> list[Json]:
    """Return the list of objects under `key`, or an empty one."""
    values = read_list(holder, key)
    for value in values:
        if type(value) is not dict:
            raise _wrong(key, "a list of objects", value)
    return values


def read_text(holder: Json, key: str) -> str:
    """Return the text under `key`, or the empty text."""
    value = holder.get(key)
    if value is None:
        return ""
    if type(value) is not str:
        raise _wrong(key, "text", value)
    return value


def read_flag(holder: Json, key: str) -> bool:
    """Return the truth value under `key`, or false."""
    value = holder.get(key)
    if value is None:
        return False
    if type(value) is not bool:
        raise _wrong(key, "true or false", value)
    return value


def read_texts(holder: Json, key: str) -> dict[str, str]:
    """Return the object of texts under `key`, such as labels and annotations."""
    found = read_map(holder, key)
    for name, value in found.items():
        if type(value) is not str:
            raise _wrong(f"{key}.{name}", "text", value)
    return found
