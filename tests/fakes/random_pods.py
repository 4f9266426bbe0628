"""Random pods, with every field that rules and steps read and many that they do not.

A `random.Random` decides.  So hypothesis can shrink a failure, and a drill can repeat what it saw.
"""

from random import Random
from typing import Any

from webhook.admission.json_fields import Json

_HOOK = "/usr/lib/nvshare/libnvshare.so"
_AMOUNTS = ("1", "1", "1", "1", "2", "3", "0", 1, 2, "1e0", "1k", "1500m", "-1", "4")
_VARIABLES = ("A", "B", "PATH", "LD_PRELOAD", "LD_PRELOAD", "NVSHARE_LOG", "NVSHARE_MODE", "LD_AUDIT", "LANG")
_VALUES = ("", "x", "single", "gang", _HOOK, f"/a.so:{_HOOK}", "/a.so /b.so", "$(A)", "$(LD_PRELOAD):/c.so")
_PATHS = ("/data", "/usr/lib", "/usr/lib/nvshare", "/var/run", "//srv", "/x/../srv", "/home/u", "/run/user", "etc")
_HOST_PATHS = ("/data", "/dev", "/dev/shm", "/var/log", "//dev", "/run")
_ANNOTATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("nvshare.com/multi-gpu", ("gang", "per-device", "both")),
    ("nvshare.com/memory", ("1Gi", "8Gi", "none")),
    ("nvshare.com/weight", ("10", "1000", "0")),
    ("nvshare.com/quantum", ("30s", "5")),
    ("nvshare.com/allocation", ("plain", "managed")),
    ("nvshare.com/injected", ("v1 forged",)),
    ("nvshare.com/reduced-from", ("main=2", "c0=3", "")),
    ("nvshare.com/typo", ("x",)),
    ("example.com/~note", ("a/b~c",)),
)


def _maybe(random: Random, holder: Json, key: str, make: Any, chance: float = 0.3) -> None:
    """Return the field sometimes, null or empty sometimes, and mostly nothing."""
    dice = random.random()
    if dice < chance:
        holder[key] = make()
    elif dice < chance + 0.05:
        holder[key] = None


def _variable(random: Random) -> Json:
    entry: Json = {"name": random.choice(_VARIABLES)}
    if random.random() < 0.1:
        entry["valueFrom"] = {"fieldRef": {"fieldPath": "metadata.name"}}
    elif random.random() < 0.9:
        entry["value"] = random.choice(_VALUES)
    return entry


def _some(random: Random, make: Any, most: int = 3) -> list[Any]:
    return [make(random) for _ in range(random.randint(0, most))]


def _mount(random: Random) -> Json:
    return {
        "name": random.choice(("v0", "v1", "v2")),
        "mountPath": random.choice(_PATHS),
        "readOnly": bool(random.getrandbits(1)),
    }


def _container(random: Random, name: str) -> Json:
    made: Json = {"name": name, "image": "i", "xUnknown": {"kept": [1, None, "two"]}}
    if random.random() < 0.7:
        limits = {"nvshare.com/gpu": random.choice(_AMOUNTS), "cpu": "1"}
        if random.random() < 0.05:
            limits["nvidia.com/gpu"] = "1"
        made["resources"] = {"limits": limits}
        if random.random() < 0.3:
            made["resources"]["requests"] = {"nvshare.com/gpu": limits["nvshare.com/gpu"]}
    _maybe(random, made, "env", lambda: _some(random, _variable), 0.6)
    _maybe(random, made, "envFrom", lambda: [{"configMapRef": {"name": "c"}}], 0.15)
    _maybe(random, made, "volumeMounts", lambda: _some(random, _mount), 0.3)
    _maybe(random, made, "securityContext", lambda: {"privileged": random.random() < 0.3}, 0.15)
    return made


def _volume(random: Random, index: int) -> Json:
    if random.random() < 0.3:
        return {"name": f"v{index}", "hostPath": {"path": random.choice(_HOST_PATHS)}}
    return {"name": f"v{index}", "emptyDir": {"xUnknown": 1}}


def _affinity(random: Random) -> Json:
    term: Json = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    terms = random.choice(([term], [term, {"matchFields": []}], [{}, term], []))
    return random.choice(
        (
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
            {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
            {"podAffinity": {}},
        )
    )


def random_pod(random: Random) -> Json:
    """Make one pod."""
    containers = [_container(random, f"c{index}") for index in range(random.randint(1, 3))]
    spec: Json = {"containers": containers, "xUnknown": {"deep": [[{"kept": True}]]}}
    _maybe(random, spec, "initContainers", lambda: [_initial(random, index) for index in range(2)], 0.2)
    _maybe(random, spec, "volumes", lambda: [_volume(random, index) for index in range(random.randint(0, 3))], 0.5)
    _maybe(random, spec, "affinity", lambda: _affinity(random), 0.3)
    _maybe(random, spec, "hostPID", lambda: True, 0.03)
    _maybe(random, spec, "nodeName", lambda: "n1", 0.03)
    metadata: Json = {"generateName": "r-"}
    _maybe(random, metadata, "annotations", lambda: _annotations(random), 0.6)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "xUnknown": "kept"}


def _initial(random: Random, index: int) -> Json:
    made = _container(random, f"i{index}")
    if random.random() < 0.4:
        made["restartPolicy"] = "Always"
    return made


def _annotations(random: Random) -> dict[str, str]:
    chosen = random.sample(_ANNOTATIONS, random.randint(0, 2))
    return {key: random.choice(values) for key, values in chosen}


def random_namespace(random: Random) -> dict[str, str]:
    """Make the annotations of a namespace."""
    table = {
        "nvshare.com/multi-gpu": ("gang", "per-device"),
        "nvshare.com/on-multi-gpu": ("reduce", "reduce", "reject"),
        "nvshare.com/max-gpus": ("1", "4", "100"),
        "nvshare.com/max-memory": ("4Gi",),
        "nvshare.com/default-weight": ("50",),
        "nvshare.com/allow": ("privileged", "host-path, host-pid"),
    }
    return {key: random.choice(values) for key, values in table.items() if random.random() < 0.3}
