"""Ways around the rules, one by one: admission refuses them, or the node makes them ineffective.

docs/threat-model.md names each of these tests.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from contract.words import names, paths
from testbed.cluster.installed import House, Wish, pod
from testbed.cluster.kubernetes import gpus
from tests.system.install.bypasses import REFUSED, mount

pytestmark = [pytest.mark.node, pytest.mark.slow]


@pytest.mark.parametrize("wish", REFUSED.values(), ids=REFUSED.keys())
def test_it_is_refused_with_a_sentence(house: House, team: str, wish: Wish) -> None:
    said = house.create(team, pod("sly", wish))

    assert "created" not in said
    assert "nvshare.com" in said
    assert "Traceback" not in said


def test_an_emptied_ld_preload_takes_nothing_away(house: House, team: str) -> None:
    house.start(team, pod("empty", Wish(env={"LD_PRELOAD": ""})))

    assert paths.CONTAINER_HOOK in house.execute(team, "empty", "cat", "/proc/1/maps")


def test_a_program_that_unsets_ld_preload_is_still_hooked(house: House, team: str) -> None:
    command = ("env", "-u", "LD_PRELOAD", "sleep", "600")
    house.start(team, pod("unset", Wish(command=command)))

    assert "LD_PRELOAD" not in house.execute(team, "unset", "cat", "/proc/1/environ")
    assert paths.CONTAINER_HOOK in house.execute(team, "unset", "cat", "/proc/1/maps")


@pytest.mark.parametrize("path", ["/etc", "//etc/."])
def test_a_mount_over_the_folder_of_the_file_that_names_the_hook_takes_nothing_away(
    house: House, team: str, path: str
) -> None:
    # This holds even with LD_PRELOAD unset: the allocation's mount is deeper, so it lies on top of the pod's.
    house.start(team, pod("over", replace(mount(path), command=("env", "-u", "LD_PRELOAD", "sleep", "600"))))

    assert paths.CONTAINER_HOOK in house.execute(team, "over", "cat", "/proc/1/maps")


def test_a_pods_own_ld_preload_is_kept_behind_ours(house: House, team: str) -> None:
    own = "/lib/x86_64-linux-gnu/libm.so.6"
    house.start(team, pod("own", Wish(env={"LD_PRELOAD": own}, command=("sleep", "600"))))

    maps = house.execute(team, "own", "cat", "/proc/1/maps")
    assert paths.CONTAINER_HOOK in maps
    assert "libm.so.6" in maps


def test_the_hook_and_the_sockets_are_read_only(house: House, team: str) -> None:
    house.start(team, pod("vandal", Wish(command=("sleep", "600"), spec={"securityContext": {"runAsUser": 0}})))

    for path in (paths.CONTAINER_HOOK, f"{paths.CONTAINER_SOCKETS}/mine/x", paths.CONTAINER_PRELOAD_FILE):
        said = house.execute(team, "vandal", "sh", "-c", f"echo > {path}", check=False)
        assert "Read-only file system" in said, path


def test_a_container_reaches_no_socket_but_its_own(house: House, team: str) -> None:
    house.start(team, pod("left"), pod("right"))
    listing = house.execute(team, "left", "ls", "-R", paths.CONTAINER_SOCKETS)

    assert listing.count("scheduler.sock") == 1
    assert "control.sock" not in house.execute(team, "left", "sh", "-c", "ls -R /run /var/run 2>&1")


def test_its_gpus_are_those_it_was_given_whatever_the_program_says(house: House, team: str) -> None:
    house.start(team, pod("given"))
    (given,) = house.uuids(team, "given")

    assert given.startswith("GPU-")
    # through the driver, by NVIDIA's own bindings
    assert house.execute(team, "given", "python", "-c", gpus.REPORT).startswith(f"{given} is one of 1;")


def test_annotations_of_a_running_pod_cannot_be_changed(house: House, team: str) -> None:
    house.start(team, pod("fixed"))
    said = house.kubectl("annotate", "pod", "fixed", "-n", team, "nvshare.com/weight=1000", check=False)

    assert "annotated" not in said
    assert "nvshare.com" in said


DEBUGGERS = {
    "all GPUs by the variable": {"env": [{"name": names.ENV_VISIBLE_DEVICES, "value": "all"}]},
    "privileged": {"securityContext": {"privileged": True}},
    "the pod's volumes": {"volumeMounts": [{"name": names.SOCKETS_VOLUME, "mountPath": "/stolen"}]},
}


@pytest.mark.parametrize("further", DEBUGGERS.values(), ids=DEBUGGERS.keys())
def test_an_ephemeral_container_is_no_way_in(
    house: House, team: str, further: dict[str, object], tmp_path: Path
) -> None:
    house.start(team, pod("target"))
    body = house.json("get", "pod", "target", "-n", team)
    image = body["spec"]["containers"][0]["image"]
    body["spec"]["ephemeralContainers"] = [
        {"name": "debug", "image": image, "imagePullPolicy": "Never", "command": ["sleep", "60"], **further}
    ]
    file = tmp_path / "pod.json"

    file.write_text(json.dumps(body))
    said = house.kubectl(
        "replace", "--raw", f"/api/v1/namespaces/{team}/pods/target/ephemeralcontainers", "-f", str(file), check=False
    )

    assert "nvshare.com" in said
    assert "denied" in said


def test_an_honest_ephemeral_container_gets_no_gpu(house: House, team: str) -> None:
    house.start(team, pod("target"))
    image = house.json("get", "pod", "target", "-n", team)["spec"]["containers"][0]["image"]
    house.kubectl(
        "debug", "-n", team, "target", f"--image={image}", "--image-pull-policy=Never", "-c", "look", "--", "env"
    )

    added = house.json("get", "pod", "target", "-n", team)["spec"]["ephemeralContainers"][0]
    assert {"name": names.ENV_VISIBLE_DEVICES, "value": "void"} in added["env"]


def test_a_pod_that_slips_past_the_webhook_is_hooked_by_its_allocation(house: House, room: Callable[..., str]) -> None:
    # In `warn` mode nothing is injected, as after a bypass of admission.
    namespace = room(labels={names.INJECTION_LABEL: "warn"})
    house.start(namespace, pod("past"))

    assert "volumeMounts" not in str(house.json("get", "pod", "past", "-n", namespace)["metadata"])
    assert paths.CONTAINER_HOOK in house.execute(namespace, "past", "cat", "/proc/1/maps")
