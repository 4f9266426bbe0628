"""The parts that decide without starting anything: pins, keys, addresses, configurations, what a machine lacks."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from testbed.cluster import cache, pins
from testbed.cluster.errors import BrokenError, ClusterError, MissingError
from testbed.cluster.kubernetes import containerd, kubelet
from testbed.cluster.kubernetes.pki import Pair
from testbed.cluster.machine import network, runs
from testbed.cluster.machine.processes import Process, free_ports, wait_until
from testbed.cluster.supplies import build, debian, image, toolchain

_GO = Path(build.__file__).with_name("go")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache.root()


# ---------------------------------------------------------------------------------------------- pins and builds
@pytest.mark.parametrize(
    ("module", "line"),
    [
        pytest.param(pins.CONTROL_PLANE, f"k8s.io/kubernetes v{pins.KUBERNETES}", id="Kubernetes"),
        pytest.param(pins.RUNTIME, f"github.com/containerd/containerd/v2 v{pins.CONTAINERD}", id="containerd"),
        *(
            pytest.param(module, f"github.com/NVIDIA/nvidia-container-toolkit v{module.version}", id=module.folder)
            for module in pins.NVIDIA_MODULES
        ),
    ],
)
def test_go_mod_builds_the_pinned_version(module: pins.Module, line: str) -> None:
    required = re.findall(r"^(?:require )?\s*(\S+ v\S+)", (_GO / module.folder / "go.mod").read_text(), re.MULTILINE)

    assert line in required


@pytest.mark.parametrize("module", pins.MODULES + pins.NVIDIA_MODULES, ids=lambda module: module.folder)
def test_every_program_is_named_for_go_mod_tidy(module: pins.Module) -> None:
    imported = re.findall(r'_ "(.+)"', (_GO / module.folder / "programs.go").read_text())

    assert sorted(imported) == sorted(program.package for program in module.programs)


def test_all_staging_modules_are_of_the_pinned_release() -> None:
    replaced = re.findall(r"^\t(\S+) => (\S+) v(\S+)$", (_GO / "kubernetes" / "go.mod").read_text(), re.MULTILINE)

    assert {version for *_, version in replaced} == {pins.KUBERNETES.replace("1.", "0.", 1)}
    assert all(module == published for module, published, _ in replaced)


def test_the_go_compiler_asked_for_is_new_enough_for_every_module() -> None:
    for module in pins.MODULES + pins.NVIDIA_MODULES:
        wanted = re.search(r"^go (\d+)\.(\d+)\.(\d+)$", (_GO / module.folder / "go.mod").read_text(), re.MULTILINE)
        assert wanted is not None
        assert tuple(map(int, wanted.groups())) <= pins.GO_AT_LEAST


def test_another_pin_is_another_build() -> None:
    stamped = pins.Module(pins.RUNTIME.folder, pins.RUNTIME.version, pins.RUNTIME.programs, ("x=y",))

    assert build.build_name(stamped) != build.build_name(pins.RUNTIME)


def test_kubebuilder_assets_are_taken_for_the_control_plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    (tmp_path / "etcd").touch()
    with pytest.raises(MissingError, match="has no kube-apiserver, kubectl"):
        build.control_plane_programs(say=print)

    for name in pins.KUBEBUILDER_PROGRAMS:
        (tmp_path / name).touch()
    assert build.control_plane_programs(say=print) == tmp_path


# ---------------------------------------------------------------------------------------------- the Go compiler
def fake_go(folder: Path, version: str) -> None:
    folder.mkdir()
    (folder / "go").write_text(f"#!/bin/sh\necho go version go{version} linux/amd64\n")
    (folder / "go").chmod(0o755)


@pytest.mark.parametrize(
    ("version", "is_taken"), [("1.26.8", True), ("1.27.1", True), ("1.27", True), ("1.26.7", False), ("1.19.8", False)]
)
def test_the_machines_own_compiler_is_taken_when_new_enough(
    version: str, is_taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_go(tmp_path / "bin", version)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(toolchain, "_from_wheel", lambda: Path("the wheel's"))

    assert toolchain.find_go() == (tmp_path / "bin" / "go" if is_taken else Path("the wheel's"))


# ---------------------------------------------------------------------------------------------- the cache
def test_two_makers_at_once_do_the_work_once(own_cache: Path) -> None:
    made: list[str] = []
    may_finish = threading.Event()

    def fill(folder: Path) -> None:
        made.append(folder.name)
        may_finish.wait(5)
        (folder / "done").touch()

    waiting: list[str] = []
    makers = [threading.Thread(target=cache.filled, args=("x", fill), kwargs={"say": waiting.append}) for _ in "ab"]
    for maker in makers:
        maker.start()
    wait_until(lambda: bool(waiting), what="the second says that it waits", seconds=5)
    may_finish.set()
    for maker in makers:
        maker.join()

    assert made == ["x.unfinished"]
    assert (own_cache / "x" / "done").exists()


def test_a_half_made_folder_is_made_anew(own_cache: Path) -> None:
    (own_cache / "x.unfinished").mkdir()
    (own_cache / "x.unfinished" / "half").touch()

    folder = cache.filled("x", lambda folder: (folder / "whole").touch(), say=print)

    assert [path.name for path in folder.iterdir()] == ["whole"]


# ---------------------------------------------------------------------------------------------- runs
def test_an_owner_is_not_taken_for_a_later_process_of_the_same_number() -> None:
    alive = runs.Owner.of(os.getpid())

    assert alive.is_alive
    assert not runs.Owner(alive.pid, alive.started - 1).is_alive


def test_a_zombie_owns_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as ended:
        owner = runs.Owner.of(ended.pid)
        assert ended.stdout is not None
        ended.stdout.read()  # its end of the pipe is closed: it has ended, and we have not waited for it
        wait_until(lambda: not owner.is_alive, what="it is a zombie", seconds=5)


# ---------------------------------------------------------------------------------------------- network and nodes
def test_two_clusters_share_no_address() -> None:
    one, other = network.Addresses(0), network.Addresses(1)

    def all_of(some: network.Addresses) -> set[str]:
        return {some.machine, some.node(0), some.node(1), some.pods(0), some.pods(1), some.services, some.all_pods}

    assert len(all_of(one)) == 7
    assert all_of(one).isdisjoint(all_of(other))


ROUTES = """Iface\tDestination\tGateway
eth0\t00000000\t010200C0
nvgab\t0000650A\t00000000
docker0\t000011AC\t00000000
vpn\t0000320A\t00000000
"""


def test_a_subnet_that_is_routed_already_is_taken() -> None:
    assert 1 in network.routed_subnets(ROUTES)
    assert network.routed_subnets(ROUTES) & set(range(network.SUBNETS)) == {1}


@pytest.mark.parametrize(
    ("status", "may"),
    [
        pytest.param("Name:\tx\nCapEff:\t000001ffffffffff\n", True, id="all capabilities"),
        pytest.param("Name:\tx\nCapEff:\t000001fffeffffff\n", False, id="all but CAP_SYS_RESOURCE"),
    ],
)
def test_oom_scores_are_left_alone_where_they_may_not_be_lowered(status: str, may: bool) -> None:
    assert containerd.may_raise_oom_score(status) is may
    restricted = f"restrict_oom_score_adj = {str(not may).lower()}"
    assert restricted in containerd.configuration(may_raise_oom_score=containerd.may_raise_oom_score(status))


def test_a_kubelet_runs_on_either_control_group_version_and_trusts_only_its_ca() -> None:
    place = kubelet.Place(name="n", address="10.100.0.10", pods="10.100.0.0/17", cgroup_root="/guard-x", labels={})
    pair = Pair(Path("n.crt"), Path("n.key"))
    made = kubelet.configuration(place, authority=Path("ca.crt"), serving=pair, nameservers=["192.0.2.1"])

    assert made["failCgroupV1"] is False
    assert made["authentication"]["anonymous"] == {"enabled": False}
    assert made["authorization"] == {"mode": "Webhook"}


def test_a_pod_gets_at_most_three_nameservers() -> None:
    text = "# nameserver 9.9.9.9\nsearch x\n" + "".join(f"nameserver 192.0.2.{number}\n" for number in range(5))

    assert kubelet.nameservers(text) == ["192.0.2.0", "192.0.2.1", "192.0.2.2"]


# ---------------------------------------------------------------------------------------------- processes
def test_waiting_ends_at_once_with_the_log_when_a_process_it_needs_has_died(tmp_path: Path) -> None:
    dying = Process(name="dying", command=["sh", "-c", "echo last words; exit 3"], logs=tmp_path)
    dying.start()

    with pytest.raises(BrokenError, match=r"dying ended while waiting for: spring(.|\n)*last words"):
        wait_until(lambda: False, what="spring", seconds=60, needs=(dying,))


def test_a_process_that_will_not_end_is_ended(tmp_path: Path) -> None:
    deaf = Process(
        name="deaf", command=["sh", "-c", "trap '' TERM; echo ready; sleep 60 & wait; sleep 60"], logs=tmp_path
    )
    deaf.start()
    wait_until(lambda: "ready" in deaf.last_lines(), what="it is deaf", seconds=5, needs=(deaf,))
    deaf.stop(grace_seconds=0.1)

    assert not deaf.is_running


def test_free_ports_are_different_and_below_those_the_kernel_hands_out() -> None:
    ports = free_ports(50)

    assert len(set(ports)) == 50
    assert max(ports) < 32768


# ---------------------------------------------------------------------------------------------- what a machine lacks
@pytest.mark.usefixtures("own_cache")
def test_a_missing_package_is_one_sentence_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingError) as missing:
        debian.ensure({"sh": "dash", "no-such-command": "a-package", "/no/such/file": "b-package"}, say=print)

    assert missing.value.cause == "this machine lacks a-package, b-package"
    assert missing.value.remedy == "apt-get install --no-install-recommends a-package b-package"


def test_the_family_of_errors_is_raised_by_its_members_only() -> None:
    with pytest.raises(TypeError):
        ClusterError("cause", "remedy")


def test_the_images_key_changes_with_what_the_dockerfile_copies_and_with_nothing_else() -> None:
    files = {str(path.relative_to(image.REPOSITORY)) for path in image._context_files()}

    assert "contract/words/names.py" in files
    assert "requirements/run.txt" in files
    assert not [
        file for file in files if file.startswith(("tests/", "testbed/", ".git", "build/")) or file.endswith(".pyc")
    ]


def test_the_dockerfile_copies_nothing_that_dockerignore_holds_back() -> None:
    dockerfile = (image.REPOSITORY / "Dockerfile").read_text()
    copied = {word for line in re.findall(r"^COPY (?!--)(.+) \S+$", dockerfile, re.MULTILINE) for word in line.split()}
    let_through = re.findall(r"^!(.+)$", (image.REPOSITORY / ".dockerignore").read_text(), re.MULTILINE)

    assert copied == set(let_through)
