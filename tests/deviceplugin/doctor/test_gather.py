"""What `doctor` reads of a node: folders of a test take the node's place."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapters.errors import Forbidden, Unreachable
from deviceplugin.core.doctor.facts import ClusterFacts, DeviceNode
from deviceplugin.doctor import cluster
from deviceplugin.doctor.cluster import NodeAnswer, ask_cluster
from deviceplugin.doctor.gpus import look_at_nodes
from deviceplugin.doctor.node import look_at_kubelet, look_at_ours
from deviceplugin.doctor.run import node_root
from deviceplugin.doctor.runtime import look_at_runtime, why_unread
from deviceplugin.settings import Settings
from tests.fakes.gpus import FakeScheduler

CONTAINERD_2 = """
version = 3
imports = ["/etc/containerd/conf.d/*.toml"]
[plugins.'io.containerd.cri.v1.runtime']
  cdi_spec_dirs = ["/etc/cdi", "/run/cdi"]
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
"""
TOOLKIT = """
version = 3
[plugins.'io.containerd.cri.v1.runtime'.containerd]
  default_runtime_name = "nvidia"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
"""
CONTAINERD_1 = """
[plugins."io.containerd.grpc.v1.cri"]
  enable_cdi = false
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
"""
CRIO = '[crio.runtime]\ncdi_spec_dirs = ["/etc/cdi"]\ndefault_runtime = "crun"\n[crio.runtime.runtimes.crun]\n'


def node_with(root: Path, **files: str) -> Path:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def answer(runtime: str) -> NodeAnswer:
    return NodeAnswer(ClusterFacts(), runtime)


def test_containerd_is_read_with_what_it_imports_and_the_later_file_wins(tmp_path: Path) -> None:
    files = {"etc/containerd/config.toml": CONTAINERD_2, "etc/containerd/conf.d/99-nvidia.toml": TOOLKIT}
    found = look_at_runtime(answer("containerd://2.1.4"), node_with(tmp_path, **files))

    assert (found.name, found.version) == ("containerd", "2.1.4")
    assert found.config_file == str(tmp_path / "etc/containerd/config.toml")
    assert (found.default_handler, found.handlers) == ("nvidia", ("nvidia", "runc"))
    assert (found.enable_cdi, found.cdi_folders) == (None, ("/etc/cdi", "/run/cdi"))


def test_the_sections_of_containerd_1_are_read(tmp_path: Path) -> None:
    found = look_at_runtime(
        answer("containerd://1.7.2"), node_with(tmp_path, **{"etc/containerd/config.toml": CONTAINERD_1})
    )

    assert (found.enable_cdi, found.cdi_folders, found.default_handler) == (False, None, "")


def test_k3s_goes_before_a_containerd_of_the_distribution(tmp_path: Path) -> None:
    k3s = "var/lib/rancher/k3s/agent/etc/containerd/config.toml"
    root = node_with(tmp_path, **{"etc/containerd/config.toml": CONTAINERD_1, k3s: CONTAINERD_2})

    assert look_at_runtime(answer("containerd://2.0.5-k3s1"), root).config_file == str(tmp_path / k3s)


def test_cri_o_is_read_with_its_folder_of_files(tmp_path: Path) -> None:
    more = '[crio.runtime]\ndefault_runtime = "nvidia"\n[crio.runtime.runtimes.nvidia]\n'
    root = node_with(tmp_path, **{"etc/crio/crio.conf": CRIO, "etc/crio/crio.conf.d/99-nvidia.conf": more})
    found = look_at_runtime(answer("cri-o://1.32.1"), root)

    assert (found.default_handler, found.handlers, found.cdi_folders) == ("nvidia", ("crun", "nvidia"), ("/etc/cdi",))


def test_a_runtime_that_the_node_does_not_tell_is_found_by_its_file(tmp_path: Path) -> None:
    assert look_at_runtime(answer(""), node_with(tmp_path, **{"etc/crio/crio.conf": CRIO})).handlers == ("crun",)


@pytest.mark.parametrize(
    "text", ["[odd", "imports = 3", "plugins = 1", "[plugins]\n'io.containerd.cri.v1.runtime' = 2"]
)
def test_odd_files_are_a_fact_and_no_failure(text: str, tmp_path: Path) -> None:
    found = look_at_runtime(answer("containerd://2.1"), node_with(tmp_path, **{"etc/containerd/config.toml": text}))

    assert bool(found.config_error) is (text == "[odd")
    assert (found.default_handler, found.handlers) == ("", ())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", (True, "auto")),
        ("accept-nvidia-visible-devices-envvar-when-unprivileged = false", (False, "auto")),
        ('[nvidia-container-runtime]\nmode = "cdi"', (True, "cdi")),
        ("nvidia-container-runtime = 3", (True, "auto")),
    ],
)
def test_the_toolkits_configuration_is_read(text: str, found: tuple[bool, str], tmp_path: Path) -> None:
    root = node_with(tmp_path, **{"etc/nvidia-container-runtime/config.toml": text})
    toolkit = look_at_runtime(answer("containerd://2.1"), root).toolkit

    assert toolkit is not None
    assert (toolkit.takes_variable, toolkit.mode) == found


def test_the_toolkit_of_the_operator_goes_before_one_of_the_host(tmp_path: Path) -> None:
    operators = "usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"
    root = node_with(tmp_path, **{"etc/nvidia-container-runtime/config.toml": "", operators: "[odd"})
    assert look_at_runtime(answer(""), root).toolkit is None
    (root / operators).write_text("")
    toolkit = look_at_runtime(answer(""), root).toolkit

    assert toolkit is not None
    assert toolkit.file == str(root / operators)


_IS_DEFAULT = {"etc/containerd/config.toml": CONTAINERD_2, "etc/containerd/conf.d/99-nvidia.toml": TOOLKIT}
_REFUSES = {
    "etc/nvidia-container-runtime/config.toml": "accept-nvidia-visible-devices-envvar-when-unprivileged = false",
}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        pytest.param(_IS_DEFAULT, "", id="NVIDIA's runtime is the default"),
        pytest.param({"etc/containerd/config.toml": "version = 3"}, "The default runtime is runc", id="runc is"),
        pytest.param(_IS_DEFAULT | _REFUSES, "makes it ignore NVIDIA_VISIBLE_DEVICES", id="hardened"),
        pytest.param({"etc/containerd/config.toml": "[odd"}, "", id="a file that cannot be read tells nothing"),
        pytest.param({"etc/containerd/config.toml": "", "etc/crio/crio.conf": CRIO}, "", id="two runtimes' files"),
        pytest.param({}, "", id="no file"),
    ],
)
def test_who_would_read_the_environment_is_seen_in_the_nodes_files(
    files: dict[str, str], says: str, tmp_path: Path
) -> None:
    said = why_unread(node_with(tmp_path, **files))

    assert says in said
    assert bool(said) is bool(says)
    assert why_unread(None) == ""


def test_without_the_nodes_root_no_file_is_read() -> None:
    assert look_at_runtime(answer("containerd://2.1"), None).config_file == ""


def test_where_the_nodes_root_is(tmp_path: Path) -> None:
    in_a_pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}

    assert node_root(in_a_pod, tmp_path) == tmp_path
    assert node_root(in_a_pod, tmp_path / "none") is None
    assert node_root({}, tmp_path / "none") == Path("/")


def test_device_nodes_are_looked_at_below_a_root(tmp_path: Path) -> None:
    node_with(tmp_path, **{"dev/nvidia0": "text"})
    (tmp_path / "dev/nvidia-uvm").symlink_to("/dev/null")

    assert look_at_nodes(("nvidia0", "nvidia-uvm", "nvidiactl"), tmp_path) == {
        "nvidia0": DeviceNode.OTHER,
        "nvidia-uvm": DeviceNode.THERE,
        "nvidiactl": DeviceNode.ABSENT,
    }


def test_our_parts_are_seen_as_they_are(settings: Settings) -> None:
    before = look_at_ours(settings)
    assert (before.root_is_writable, before.hook, before.names_hook, before.scheduler_answers) == (
        *(False, None, False, False),
    )
    assert before.image_hook == b"hook 1"
    layout = settings.layout
    node_with(Path("/"), **{str(layout.hook)[1:]: "\x7fELF", str(layout.preload_file)[1:]: "x"})
    layout.cdi.mkdir()
    scheduler = FakeScheduler(settings.control_socket)
    after = look_at_ours(settings)
    scheduler.end()

    assert (after.root_is_writable, after.cdi_is_writable, after.hook, after.names_hook) == (
        True,
        True,
        b"\x7fELF",
        True,
    )
    assert after.scheduler_answers


def test_a_kubelet_that_is_not_there_is_a_fact(settings: Settings) -> None:
    found = look_at_kubelet(settings)

    assert (found.registers, found.pod_resources, found.foreign) == (False, False, None)


class Server:
    """An API server with one Node, which may forbid the runtime classes."""

    def __init__(self, *, forbids: bool = False) -> None:
        self._forbids = forbids

    def call(self, _method: str, path: str, **_more: object) -> dict[str, Any]:
        if "runtimeclasses" in path:
            if self._forbids:
                raise Forbidden("no", status=403)
            return {"items": [{"metadata": {"name": "nvidia"}, "handler": "nvidia"}]}
        info = {"containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.36.4"}
        return {"status": {"nodeInfo": info, "allocatable": {"nvshare.com/gpu": "40"}}}


@pytest.mark.parametrize("forbids", [False, True])
def test_the_cluster_tells_versions_slots_and_classes(forbids: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "connect", lambda _: Server(forbids=forbids))
    found = ask_cluster("node-1", "")

    assert (found.runtime, found.takes_cdi, found.facts.kubelet) == ("containerd://2.1.4", True, "v1.36.4")
    assert found.facts.slots == 40
    assert found.facts.runtime_classes == (None if forbids else {"nvidia": "nvidia"})


def test_a_cluster_that_is_away_is_a_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_: str) -> None:
        raise Unreachable("the API server is away")

    monkeypatch.setattr(cluster, "connect", away)

    assert ask_cluster("node-1", "").facts == ClusterFacts(trouble="the API server is away.")
    assert ask_cluster("", "").facts.trouble == "no --node-name is given."


def test_settings_of_another_root_are_used(settings: Settings, tmp_path: Path) -> None:
    assert look_at_kubelet(replace(settings, kubelet_folder=tmp_path)).folder == str(tmp_path)
