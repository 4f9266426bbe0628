"""The properties of the answer to any pod: the patch applies, no other field changes, and once is enough."""

import base64
import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import jsonpatch

from webhook.admission.json_fields import Json

Ask = Callable[[Json], Json]
"""A pod in, the `response` of the review's answer out."""


def completed_by(response: Json, pod: Json) -> Json:
    """Return the pod with the patch of the response applied."""
    assert ("patch" in response) == ("patchType" in response)
    if "patch" not in response:
        return pod
    patch = json.loads(base64.b64decode(response["patch"]))
    assert patch, "an empty patch is no patch"
    completed: Json = jsonpatch.apply_patch(deepcopy(pod), patch)
    return completed


def strip_ours(pod: Json) -> Any:
    """Return the pod without the fields that the webhook may write; the rest must be the same before and after."""
    left: Any = deepcopy(pod)
    spec = left["spec"]
    annotations = left["metadata"].pop("annotations", None) or {}
    left["metadata"]["annotations"] = {k: v for k, v in annotations.items() if not k.startswith("nvshare.com/")}
    labels = left["metadata"].pop("labels", None) or {}
    left["metadata"]["labels"] = {k: v for k, v in labels.items() if not k.startswith("nvshare.com/")}
    spec["volumes"] = [v for v in spec.get("volumes") or [] if not v["name"].startswith("nvshare-")]
    spec.pop("affinity", None)
    for key in ("containers", "initContainers"):
        for container in spec.get(key) or []:
            env = [e for e in container.get("env") or [] if not _is_ours(e["name"])]
            mounts = [m for m in container.get("volumeMounts") or [] if not m["name"].startswith("nvshare-")]
            container["env"], container["volumeMounts"] = env, mounts
            for kind in ("limits", "requests"):
                ((container.get("resources") or {}).get(kind) or {}).pop("nvshare.com/gpu", None)
    return left


def _is_ours(name: str) -> bool:
    return name in ("LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES", "NVIDIA_VISIBLE_DEVICES") or name.startswith("NVSHARE_")


def check_properties(pod: Json, ask: Ask) -> str:
    """Check the properties for one pod; return the verdict."""
    first = ask(pod)
    if not first["allowed"]:
        assert "patch" not in first
        assert first["status"]["message"].partition(":")[0].isalnum()
        return "denied"
    completed = completed_by(first, pod)
    assert strip_ours(completed) == strip_ours(pod)
    again = ask(completed)
    assert again["allowed"], again
    assert "patch" not in again
    return "completed" if "patch" in first else "allowed"
