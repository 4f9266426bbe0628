"""JSON patch operations, built by hand: a diff of two pods by a library costs a hundred times as much.

The rule it owns: pointers are escaped, and an array or object that is missing, null or empty is written whole.
"""

from typing import Any

from webhook.admission.json_fields import Json

Operation = dict[str, Any]


def escape(key: str) -> str:
    """Escape a key, as one step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def put(path: str, value: Any) -> Operation:
    """Add the member at `path`, or replace it."""
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Operation:
    """Remove the member or item at `path`."""
    return {"op": "remove", "path": path}


def append_all(path: str, present: list[Any], items: list[Any]) -> list[Operation]:
    """Append items to the array at `path`, which may be missing, null or empty."""
    if not items:
        return []
    if not present:
        return [put(path, items)]
    return [put(f"{path}/-", item) for item in items]


def prepend_all(path: str, present: list[Any], items: list[Any]) -> list[Operation]:
    """Put items in front of the array at `path`, in their order."""
    if not items:
        return []
    if not present:
        return [put(path, items)]
    return [put(f"{path}/0", item) for item in reversed(items)]


def put_members(path: str, present: Json, members: Json) -> list[Operation]:
    """Set members of the object at `path`, which may be missing, null or empty."""
    if not members:
        return []
    if not present:
        return [put(path, members)]
    return [put(f"{path}/{escape(key)}", value) for key, value in members.items()]
