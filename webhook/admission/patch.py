"""JSON patch operations, hand-built: pointers escaped, arrays that are missing, null or empty made whole.

A library's diff of two pods costs a hundred times as much.
"""

from typing import Any

from webhook.admission.json_fields import Json

Operation = dict[str, Any]


def escape(key: str) -> str:
    """A key as one step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def put(path: str, value: Any) -> Operation:
    """Adds the member at `path`, or replaces what is there."""
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Operation:
    """Takes away the member or item at `path`."""
    return {"op": "remove", "path": path}


def append_all(path: str, present: list[Any], items: list[Any]) -> list[Operation]:
    """Appends items to the array at `path`, which may be missing, null or empty."""
    if not items:
        return []
    if not present:
        return [put(path, items)]
    return [put(f"{path}/-", item) for item in items]


def prepend_all(path: str, present: list[Any], items: list[Any]) -> list[Operation]:
    """Puts items in front of the array at `path`, in their order."""
    if not items:
        return []
    if not present:
        return [put(path, items)]
    return [put(f"{path}/0", item) for item in reversed(items)]


def put_members(path: str, present: Json, members: Json) -> list[Operation]:
    """Sets members of the object at `path`, which may be missing, null or empty."""
    if not members:
        return []
    if not present:
        return [put(path, members)]
    return [put(f"{path}/{escape(key)}", value) for key, value in members.items()]
