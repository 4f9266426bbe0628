"""A pod as the rules read it: its containers with their kind, place and number of vGPUs, counted as Kubernetes counts.

The rule it owns: every field is read once, here, through `json_fields`.  A field that no rule needs is not read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from contract.sharing.vgpus import Kind, count_in_container, count_in_pod
from contract.words import names
from webhook.admission.json_fields import Json, read_flag, read_list, read_map, read_maps, read_text, read_texts

STEERING_NAMES = frozenset((names.ENV_PRELOAD, names.ENV_VISIBLE_DEVICES, "LD_AUDIT", "GLIBC_TUNABLES"))
STEERING_PREFIX = "NVSHARE_"


@dataclass(frozen=True, slots=True, eq=False)
class Container:
    """One container, with the fields that rules and steps need."""

    kind: Kind
    name: str
    path: str
    """Its JSON pointer in the pod."""
    raw: Json
    vgpus: int
    """The number it asks for; 0 where the API server does not accept the quantity."""
    quantity_is_legal: bool
    """False where the API server will refuse the quantity: not whole, negative, or limits and requests differ."""
    env: list[Json]
    steering: tuple[tuple[int, Json], ...]
    """The entries of `env` that steer the hook, the loader or the runtime, each with its place."""
    has_env_from: bool
    mounts: list[Json]
    devices: list[Json]
    """Its `volumeDevices`."""
    termination_message_path: str
    """The kubelet mounts a file there."""
    resources: Mapping[str, Any]
    """Limits and requests together."""
    privileged: bool
    capabilities: tuple[str, ...]
    """The capabilities that it adds, upper case and without `CAP_`."""

    def reduced(self) -> "Container":
        """Return the same container, with one vGPU where it asks for several."""
        return replace(self, vgpus=1) if self.vgpus > 1 else self


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    """One pod: its own fields and its containers."""

    raw: Json
    spec: Json
    annotations: dict[str, str]
    labels: dict[str, str]
    containers: tuple[Container, ...]
    """Init containers, then ordinary ones; ephemeral ones apart."""
    ephemeral: tuple[Container, ...]
    volumes: list[Json]

    @property
    def sharing(self) -> tuple[Container, ...]:
        """The containers that ask for vGPUs."""
        return tuple([container for container in self.containers if container.vgpus])

    @property
    def quantities_are_legal(self) -> bool:
        return all([container.quantity_is_legal for container in self.containers])


def read_pod(raw: Json) -> Pod:
    """Read a pod; raise MalformedObject where a field has a type that no pod can have."""
    metadata, spec = read_map(raw, "metadata"), read_map(raw, "spec")
    ordinary = (*_read_containers(Kind.INIT, spec), *_read_containers(Kind.APP, spec))
    ephemeral = tuple(_read_containers(Kind.EPHEMERAL, spec))
    volumes = read_maps(spec, "volumes")
    for volume in volumes:
        read_text(volume, "name")
        read_text(read_map(volume, "hostPath"), "path")
    return Pod(
        raw=raw,
        spec=spec,
        annotations=read_texts(metadata, "annotations"),
        labels=read_texts(metadata, "labels"),
        containers=ordinary,
        ephemeral=ephemeral,
        volumes=volumes,
    )


_KEYS = {Kind.INIT: "initContainers", Kind.APP: "containers", Kind.EPHEMERAL: "ephemeralContainers"}


def _steering(env: list[Json]) -> tuple[tuple[int, Json], ...]:
    """Find the entries that steer; check the types of all entries in the same pass.

    Types are checked by hand: there are many entries, and nearly all of them concern no rule.
    """
    found = []
    for place, entry in enumerate(env):
        name, value = entry.get("name"), entry.get("value")
        if type(name) is not str or (value is not None and type(value) is not str):
            read_text(entry, "name")
            read_text(entry, "value")
        elif name in STEERING_NAMES or name.startswith(STEERING_PREFIX):
            read_map(entry, "valueFrom")
            found.append((place, entry))
    return tuple(found)


def _mounts(raw: Json) -> list[Json]:
    mounts = read_maps(raw, "volumeMounts")
    for mount in mounts:
        if type(mount.get("name")) is not str or type(mount.get("mountPath")) is not str:
            read_text(mount, "name")
            read_text(mount, "mountPath")
    return mounts


def _devices(raw: Json) -> list[Json]:
    devices = read_maps(raw, "volumeDevices")
    for device in devices:
        read_text(device, "name")
        read_text(device, "devicePath")
    return devices


def _read_containers(kind: Kind, spec: Json) -> Iterator[Container]:
    key = _KEYS[kind]
    for index, raw in enumerate(read_maps(spec, key)):
        is_sidecar = kind is Kind.INIT and read_text(raw, "restartPolicy") == "Always"
        resources, security = read_map(raw, "resources"), read_map(raw, "securityContext")
        limits, requests = read_map(resources, "limits"), read_map(resources, "requests")
        vgpus, env = count_in_container(limits, requests), read_maps(raw, "env")
        yield Container(
            kind=Kind.SIDECAR if is_sidecar else kind,
            name=read_text(raw, "name"),
            path=f"/spec/{key}/{index}",
            raw=raw,
            vgpus=vgpus or 0,
            quantity_is_legal=vgpus is not None,
            env=env,
            steering=_steering(env),
            has_env_from=bool(read_list(raw, "envFrom")),
            mounts=_mounts(raw),
            devices=_devices(raw),
            termination_message_path=read_text(raw, "terminationMessagePath"),
            resources={**requests, **limits} if requests else limits,
            privileged=read_flag(security, "privileged"),
            capabilities=_capabilities(security) if security else (),
        )


def _capabilities(security: Json) -> tuple[str, ...]:
    added = read_list(read_map(security, "capabilities"), "add")
    return tuple(str(name).upper().removeprefix("CAP_") for name in added)


def count_vgpus(containers: tuple[Container, ...]) -> int:
    """Return the number of vGPUs that the pod holds at once."""
    return count_in_pod((container.kind, container.vgpus) for container in containers)
