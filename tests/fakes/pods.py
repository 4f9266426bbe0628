"""Pods for tests, each made in one line."""

from typing import Any

from webhook.admission.json_fields import Json


def container(name: str, vgpus: int | None = 1, **more: Any) -> Json:
    """Make a container that asks for so many vGPUs, or for none."""
    made: Json = {"name": name, "image": "example/trainer:1", **more}
    if vgpus is not None:
        made["resources"] = {"limits": {"nvshare.com/gpu": str(vgpus)}}
    return made


def pod(*containers: Json, name: str = "trainer", annotations: dict[str, str] | None = None) -> Json:
    """Make a pod of these containers."""
    metadata: Json = {"name": name}
    if annotations is not None:
        metadata["annotations"] = annotations
    spec = {"automountServiceAccountToken": False, "containers": list(containers)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
