"""The bypasses that only the node can make ineffective, for each way in which hook and socket reach a container.

docs/threat-model.md names these tests, also those that show a bypass which is not held.
"""

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.words import names, paths
from testbed.cluster.installed import MANIFESTS, SYSTEM, House, Object, Wish, pod
from testbed.cluster.machine.processes import wait_until
from testbed.cluster.supplies import archives
from tests.system.install.bypasses import OPTED_IN, REFUSED, mount
from tests.system.install.mishaps import executed

pytestmark = [pytest.mark.node, pytest.mark.slow]
SIMGPU = Path(__file__).parents[3] / "simgpu" / "src"
STATIC_IMAGE = "nvshare.local/static-client:1"
SLEEP = ("sleep", "600")
UNSET = ("env", "-u", names.ENV_PRELOAD, *SLEEP)
RESTRICTED = {**OPTED_IN, "pod-security.kubernetes.io/enforce": "restricted"}
PAST = {names.INJECTION_LABEL: "warn"}
"""Nothing is refused and nothing injected: what a bypass of admission would leave."""
BY_MOUNTS = """
- {op: add, path: /spec/template/spec/containers/0/args/-, value: --inject=mounts}
"""


@dataclass(frozen=True)
class Form:
    """How an operator has set it up: beside the overlay `simgpu`, further components and patches of the plugin."""

    components: tuple[str, ...] = ()
    plugin: str = ""

    def write(self, folder: Path) -> Path:
        """Write a kustomization as docs/install.md shows one; kustomize takes relative folders only."""
        (folder / "manifests").symlink_to(MANIFESTS)
        target = {"kind": "DaemonSet", "name": "nvshare-device-plugin"}
        kustomization = {
            "resources": ["manifests/base"],
            "components": [f"manifests/components/{name}" for name in ("simgpu", *self.components)],
            "patches": [{"target": target, "patch": self.plugin}] if self.plugin else [],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        return folder


FORMS = {
    "CDI": Form(),
    "CDI, overlay device-plugin-mounts": Form(components=("device-plugin-mounts",)),
    "mounts": Form(plugin=BY_MOUNTS),
}


@pytest.fixture(scope="module", params=list(FORMS.values()), ids=list(FORMS))
def form(house: House, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Form]:
    """Set the installed node up in this way, and undo it afterwards."""
    chosen: Form = request.param
    if chosen == Form():
        yield chosen
        return
    house.kubectl("apply", "-k", str(chosen.write(tmp_path_factory.mktemp("form"))))
    _wait_until_registered(house)
    yield chosen
    house.apply()
    _wait_until_registered(house)


def _wait_until_registered(house: House) -> None:
    house.wait_ready()
    logs = ("-n", SYSTEM, "logs", "ds/nvshare-device-plugin")
    wait_until(lambda: "registered on" in house.kubectl(*logs), what="the new plugin is registered", seconds=30)
    house.wait_ready()
    house.wait_until_alone()  # a webhook of the former form would undo what one of the new form completes


def careful(name: str, wish: Wish) -> Object:
    """Return a pod that Pod Security `restricted` admits, so that it serves in every namespace."""
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    whole = {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    container, spec = {**wish.container, "securityContext": context}, {**wish.spec, "securityContext": whole}
    return pod(name, replace(wish, container=container, spec=spec))


def file_over(path: str, **more: Any) -> Wish:
    """Mount a file of the pod's own on top of another."""
    item = {"path": "file", "fieldRef": {"fieldPath": "metadata.name"}}
    volume = {"name": "mine", "downwardAPI": {"items": [item]}}
    over = {"name": "mine", "mountPath": path, "subPath": "file"}
    return Wish(container={"volumeMounts": [over]}, spec={"volumes": [volume]}, **more)


def start_all(house: House, namespace: str, wishes: dict[str, Wish]) -> None:
    house.start(namespace, *(careful(name, wish) for name, wish in wishes.items()))


def hooked(house: House, namespace: str, name: str) -> bool:
    return f"{paths.CONTAINER_HOOK}\n" in house.execute(namespace, name, "cat", "/proc/1/maps")


# ---------------------------------------------------------------------------------------------- opted in
TRIES = {
    "plain": Wish(command=SLEEP),
    "emptied": Wish(command=SLEEP, env={names.ENV_PRELOAD: ""}),
    "unset": Wish(command=UNSET),
    "own": Wish(command=SLEEP, env={names.ENV_PRELOAD: "/lib/x86_64-linux-gnu/libm.so.6"}),
    "over-etc": replace(mount("/etc"), command=UNSET),
    "over-etc-spelled": replace(mount("//etc/."), command=UNSET),
}


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("labels", [OPTED_IN, RESTRICTED], ids=["opted in", "restricted"])
def test_the_hook_is_there_whatever_a_pod_tries(house: House, room: Callable[..., str], labels: dict[str, str]) -> None:
    namespace = room(labels=labels)
    start_all(house, namespace, TRIES)

    assert {name: hooked(house, namespace, name) for name in TRIES} == dict.fromkeys(TRIES, True)
    said = house.execute(namespace, "plain", "sh", "-c", f"test -S {paths.CONTAINER_OWN_SOCKET} && echo there")
    assert said == "there\n"


EVERYWHERE = {
    what: wish
    for what, wish in REFUSED.items()
    if not {"securityContext", "hostPath", "hostPID", "hostIPC"} & set(re.findall(r"\w+", str(wish)))
}
"""What Pod Security would not refuse by itself."""


@pytest.mark.usefixtures("form")
def test_refused_pods_are_refused_in_every_form(house: House, room: Callable[..., str]) -> None:
    wanted = yaml.safe_dump_all(careful(f"sly{number}", wish) for number, wish in enumerate(EVERYWHERE.values()))
    for labels in (OPTED_IN, RESTRICTED):
        said = house.kubectl("create", "-n", room(labels=labels), "-f", "-", stdin=wanted, check=False)
        errors = said.split("Error from server")[1:]
        assert "created" not in said
        assert ["nvshare.com" in error for error in errors] == [True] * len(EVERYWHERE)


# ---------------------------------------------------------------------------------------------- past the webhook
BYPASSES: dict[str, tuple[Wish, bool, bool]] = {
    "emptied": (Wish(command=SLEEP, env={names.ENV_PRELOAD: ""}), True, True),
    "unset": (Wish(command=UNSET), True, True),
    "over-etc": (mount("/etc"), True, True),
    "over-preload-file": (file_over(paths.CONTAINER_PRELOAD_FILE), True, False),
    "over-hook-folder": (mount(paths.CONTAINER_HOOK_FOLDER), True, False),
    "over-hook-folder-spelled": (mount("/usr//lib/x/../nvshare/."), True, False),
    "over-hook": (file_over(paths.CONTAINER_HOOK), False, False),
}
"""What it tries; whether it is hooked all the same by CDI; and by mounts: there the pod's own mount comes last."""


def test_past_the_webhook_mounts_are_held_as_far_as_the_threat_model_says(
    house: House, form: Form, room: Callable[..., str]
) -> None:
    namespace = room(labels=PAST)
    wishes = {name: replace(wish, command=SLEEP) for name, (wish, *_) in BYPASSES.items()}
    start_all(house, namespace, wishes)

    expected = {name: by_mounts if form.plugin else by_cdi for name, (_, by_cdi, by_mounts) in BYPASSES.items()}
    assert {name: hooked(house, namespace, name) for name in BYPASSES} == expected


def test_past_the_webhook_the_visible_devices_are_the_allocations_by_cdi_only(
    house: House, form: Form, room: Callable[..., str]
) -> None:
    namespace = room(labels=PAST)
    house.start(namespace, careful("greedy", Wish(command=SLEEP, env={names.ENV_VISIBLE_DEVICES: "all"})))

    (seen,) = house.uuids(namespace, "greedy")
    assert seen.startswith("GPU-") is not bool(form.plugin)
    assert (seen == "all") is bool(form.plugin)


# ---------------------------------------------------------------------------------------------- not held
def test_a_static_program_computes_without_turns(house: House, team: str, tmp_path: Path) -> None:
    # Not held in any form: no loader reads LD_PRELOAD or /etc/ld.so.preload.
    archive = tmp_path / "static.tar"
    files = {
        "client": _build_static(tmp_path / "client").read_bytes(),
        "bin/busybox": Path("/bin/busybox").read_bytes(),
    }
    archives.write_archive(archive, name=STATIC_IMAGE, files=files, links={"bin/cat": "busybox"}, command=["/client"])
    house.node.containerd.import_image(archive)
    house.start(team, pod("static", Wish(command=("/client",), container={"image": STATIC_IMAGE})))

    wait_until(lambda: executed(house, "static") > 0, what="it computes", seconds=30)
    assert not hooked(house, team, "static")
    assert paths.CONTAINER_HOOK in str(house.json("get", "pod", "static", "-n", team)["spec"]["containers"][0]["env"])


def _build_static(program: Path) -> Path:
    """Build a program that has the software GPU's driver in it."""
    driver = [*(SIMGPU / "shared").rglob("*.c"), *(SIMGPU / "driver").rglob("*.c")]
    source = Path(__file__).parent / "programs" / "static_client.c"
    paths: list[str | Path] = ["-I", SIMGPU, "-o", program, source, *driver]
    command = ["gcc", "-std=gnu11", "-O1", "-static", "-pthread", *paths, "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    return program
