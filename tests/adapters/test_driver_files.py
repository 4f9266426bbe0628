"""Where the driver's library is looked for, and the sentences about a search; roots are temp folders."""

import os
from pathlib import Path

import pytest

from adapters import driver_files
from adapters.driver_files import Found, NodeState, Search


def lay(root: Path, *paths: str) -> None:
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def found_below(root: Path) -> list[str]:
    return [str(each.file.relative_to(root)) for each in driver_files.list_candidates((root,))]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("usr/lib64/libnvidia-ml.so.1", id="Red Hat, SUSE"),
        pytest.param("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", id="Debian, Ubuntu"),
        pytest.param("usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1", id="Debian on Grace"),
        pytest.param("usr/lib/x86_64-linux-gnu/nvidia/current/libnvidia-ml.so.1", id="Debian's packages"),
        pytest.param("usr/lib/libnvidia-ml.so.1", id="Arch"),
        pytest.param("lib64/libnvidia-ml.so.1", id="without /usr"),
        pytest.param("home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1", id="GKE"),
        pytest.param("usr/local/glibc/usr/lib/libnvidia-ml.so.1", id="Talos"),
        pytest.param("usr/lib64/libnvidia-ml.so.580.65.06", id="without the usual name"),
    ],
)
def test_the_library_is_found_where_distributions_put_it(path: str, tmp_path: Path) -> None:
    lay(tmp_path, path)

    assert found_below(tmp_path) == [path]


def test_the_usual_name_goes_before_versions_and_the_newest_version_first(tmp_path: Path) -> None:
    names = ("so.1", "so.99.1", "so.580.9", "so.580.65.06")
    lay(tmp_path, *(f"usr/lib64/libnvidia-ml.{name}" for name in names), "usr/lib64/libnvidia-ml.so")

    assert [name.removeprefix("usr/lib64/libnvidia-ml.") for name in found_below(tmp_path)] == [
        *("so.1", "so.580.65.06", "so.580.9", "so.99.1"),
    ]


def test_a_link_is_followed_below_the_root(tmp_path: Path) -> None:
    lay(tmp_path, "opt/nvidia/libnvidia-ml.so.580.1")
    for link, target in {
        "usr/lib64/libnvidia-ml.so.1": "/etc/alternatives/nvml",
        "etc/alternatives/nvml": "../../opt/here/libnvidia-ml.so.580.1",
        "opt/here": "nvidia",
    }.items():
        (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / link).symlink_to(target)

    assert found_below(tmp_path) == ["opt/nvidia/libnvidia-ml.so.580.1"]


@pytest.mark.parametrize("target", ["/nowhere", "libnvidia-ml.so.1", "../../../../../../../etc/hostname/x"])
def test_a_link_that_leads_nowhere_is_no_library(target: str, tmp_path: Path) -> None:
    lay(tmp_path, "usr/lib64/other")
    (tmp_path / "usr/lib64/libnvidia-ml.so.1").symlink_to(target)

    assert found_below(tmp_path) == []


def test_a_link_never_leaves_the_root(tmp_path: Path) -> None:
    lay(tmp_path, "outside", "root/usr/lib64/other")
    (tmp_path / "root/up").symlink_to("../../outside")

    assert driver_files.resolve(tmp_path / "root", Path("up")) is None


def test_one_file_is_tried_once(tmp_path: Path) -> None:
    lay(tmp_path, "usr/lib64/libnvidia-ml.so.580.1")
    (tmp_path / "usr/lib64/libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.1")
    (tmp_path / "lib64").symlink_to("usr/lib64")

    assert found_below(tmp_path) == ["usr/lib64/libnvidia-ml.so.580.1"]


def test_a_file_that_is_no_device_is_none_of_the_drivers(tmp_path: Path) -> None:
    lay(tmp_path, "nvidiactl")
    (tmp_path / "nvidia0").symlink_to("/dev/null")

    states = [driver_files.look_at_node(name, tmp_path) for name in ("nvidiactl", "nvidia0", "nvidia1")]
    assert states == [NodeState.OTHER, NodeState.OTHER, NodeState.ABSENT]


@pytest.mark.skipif(os.geteuid() != 0, reason="device nodes are made by root")
def test_a_device_node_without_a_driver_is_idle(tmp_path: Path) -> None:
    os.mknod(tmp_path / "nvidiactl", 0o20666, os.makedev(195, 255))

    assert driver_files.look_at_node("nvidiactl", tmp_path) is NodeState.IDLE


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\nGCC version: gcc 12.3.0\n",
            "535.104.05",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65  Release Build  (x)\n", "580.65"),
        ("", ""),
    ],
)
def test_the_version_of_the_kernel_module_is_read(text: str, version: str, tmp_path: Path) -> None:
    file = tmp_path / "version"
    file.write_text(text)

    assert driver_files.read_module_version(file) == version
    assert driver_files.read_module_version(tmp_path / "none") == ""


ROOT = Path("/host")


@pytest.mark.parametrize(
    ("search", "advice"),
    [
        pytest.param({}, "use the component gpu-operator", id="a pod without anything"),
        pytest.param({"node_is_mounted": True}, "Install NVIDIA's driver on the node;", id="a node without a driver"),
        pytest.param({"is_named": True}, "below /host: correct --driver-root", id="a wrong root was named"),
        pytest.param({"loaded": True}, "modprobe nvidia", id="no kernel module"),
        pytest.param({"loaded": True, "module": "580.1"}, "/dev/nvidiactl is not here", id="no device node"),
        pytest.param(
            {"loaded": True, "module": "580.1", "control": NodeState.FORBIDDEN},
            "a mount alone gives no right",
            id="a device node without a right to it",
        ),
        pytest.param(
            {"loaded": True, "module": "580.1", "control": NodeState.USABLE}, "dmesg for lines of NVRM", id="who knows"
        ),
        pytest.param({"loaded": True, "mismatch": True}, "start the pod again", id="upgraded under the process"),
    ],
)
def test_a_search_in_vain_says_what_was_looked_at_and_what_to_do(search: dict[str, object], advice: str) -> None:
    facts: dict[str, object] = {"tried": (("libx", "Driver Not Loaded"),), "roots": (ROOT,), **search}
    sentence = Search(**facts).tell()  # type: ignore[arg-type]

    assert sentence.startswith("NVML does not answer. Looked at: libx (Driver Not Loaded); searched below /host. ")
    assert advice in sentence


def test_a_library_that_answers_is_named_with_root_and_version() -> None:
    below = Found(ROOT / "usr/lib64/libnvidia-ml.so.1", ROOT, "580.65.06")
    by_loader = Found(None, None, "")

    assert below.tell() == (
        "NVML is /host/usr/lib64/libnvidia-ml.so.1 (below the driver's root /host), driver 580.65.06."
    )
    assert by_loader.tell() == "NVML is libnvidia-ml.so.1 (found by the loader), driver of unknown version."
