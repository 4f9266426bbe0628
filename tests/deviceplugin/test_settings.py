"""Flags: their meaning, and which values are refused with a remedy."""

import argparse
import os
import threading
from pathlib import Path

import pytest

from contract.sharing.placement import Strategy
from contract.sharing.scoring import Weights
from contract.words import paths
from deviceplugin.__main__ import main
from deviceplugin.errors import BadSetting
from deviceplugin.node.cdi_support import STATE_FILE, Injection, takes_cdi
from deviceplugin.settings import TABLE, Inject, Settings, read_health_socket, read_settings


def read(*flags: str, **environment: str) -> Settings:
    parser = argparse.ArgumentParser()
    TABLE.add_flags(parser)
    return read_settings(vars(parser.parse_args(list(flags))), environment, {})


def test_without_flags_the_settings_are_the_contracts() -> None:
    assert read() == Settings()


def test_every_flag_changes_its_setting() -> None:
    settings = read(
        *("--slots=4", "--slots-for=NVIDIA L4=2", "--slots-for=GPU-a=8", "--exclude=GPU-b,GPU-c", "--exclude=T4"),
        *("--strategy=pack", "--weights=busy=2,power=0", "--inject=cdi", "--max-per-container=3"),
        *("--metrics-port=off", "--release-seconds=0.5", "--node-root=/n"),
        NODE_NAME="node-1",
    )

    assert (settings.rules.slots, settings.rules.slots_for) == (4, {"NVIDIA L4": 2, "GPU-a": 8})
    assert settings.rules.exclude == {"GPU-b", "GPU-c", "T4"}
    assert (settings.strategy, settings.inject, settings.max_per_container) == (Strategy.PACK, Inject.CDI, 3)
    assert settings.weights == Weights(busy=2.0, power=0.0)
    assert (settings.metrics_port, settings.times.release, settings.node_name) == (None, 0.5, "node-1")
    assert settings.layout.hook == Path("/n/hook/libnvshare.so")


@pytest.mark.parametrize(
    "flag",
    [
        *("--slots=0", "--slots=1001", "--slots=", "--slots=ten", "--slots=1.5", "--slots=-1", "--slots=٣"),
        *("--slots-for=L4", "--slots-for==4", "--slots-for=L4=0", "--slots-for=L4=x"),
        *("--strategy=random", "--inject=yes", "--max-per-container=-1", "--metrics-port=70000"),
        *("--weights=busy", "--weights=busy=-1", "--weights=speed=1", "--weights=busy=1,busy=2", "--weights=busy=nan"),
        *("--release-seconds=0", "--release-seconds=soon", "--node-root=here", "--kubelet-folder="),
    ],
)
def test_an_odd_value_is_refused_with_a_remedy(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadSetting) as caught:
        read(flag)

    assert flag.partition("=")[0] in str(caught.value)
    assert str(caught.value).count(". ") >= 1
    assert main(["serve", flag]) == 1
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("runtime", "kubelet", "expected"),
    [
        ("containerd://2.3.6", "v1.36.4", True),
        ("containerd://2.0.0-rc.1", "v1.30.0", True),
        ("containerd://1.7.20", "v1.36.4", False),
        ("cri-o://1.30.0", "v1.30.0", True),
        ("cri-o://1.22.0", "v1.36.0", False),
        ("containerd://2.3.6", "v1.28.0", False),
        ("docker://24.0", "v1.36.4", False),
        ("", "", False),
    ],
)
def test_versions_that_take_cdi(runtime: str, kubelet: str, expected: bool) -> None:
    assert takes_cdi({"runtime": runtime, "kubelet": kubelet}) is expected


class NodeInfo:
    """A cluster that knows the node's versions, or does not answer."""

    def __init__(self, runtime: str) -> None:
        self.runtime, self.questions = runtime, 0

    def read_node_info(self) -> dict[str, str]:
        self.questions += 1
        return {"runtime": self.runtime, "kubelet": "v1.36.4"}


def test_the_answer_is_remembered_for_a_start_without_the_cluster(tmp_path: Path) -> None:
    cluster = NodeInfo("containerd://2.3.6")

    assert Injection(Inject.AUTO, tmp_path, None).decide() is False
    assert Injection(Inject.AUTO, tmp_path, cluster).decide() is True  # type: ignore[arg-type]
    assert Injection(Inject.AUTO, tmp_path, None).decide() is True
    assert Injection(Inject.AUTO, tmp_path, cluster).decide() is True  # type: ignore[arg-type]
    assert cluster.questions == 1, "a start must not wait for the cluster when the answer is known"
    assert Injection(Inject.MOUNTS, tmp_path, cluster).decide() is False  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state_file", "expected", "questions"),
    [
        pytest.param("cdi\n", True, 0, id="known"),
        pytest.param("mounts", False, 0, id="known, and the cluster would say otherwise"),
        pytest.param("", True, 1, id="left empty by a disk that was full"),
        pytest.param("auto\n", True, 1, id="no answer"),
        pytest.param("yes", True, 1, id="nobody's word"),
        pytest.param(b"\xff", True, 1, id="no text"),
    ],
)
def test_a_state_file_without_an_answer_is_ignored(
    state_file: str | bytes, expected: bool, questions: int, tmp_path: Path
) -> None:
    (tmp_path / STATE_FILE).write_bytes(state_file.encode() if isinstance(state_file, str) else state_file)
    cluster = NodeInfo("containerd://2.3.6")

    assert Injection(Inject.AUTO, tmp_path, cluster).decide() is expected  # type: ignore[arg-type]
    assert cluster.questions == questions


def test_an_equal_state_file_is_not_written_again(tmp_path: Path) -> None:
    cluster, stop = NodeInfo("containerd://2.3.6"), threading.Event()
    injection = Injection(Inject.AUTO, tmp_path, cluster)  # type: ignore[arg-type]
    injection.keep_asking(lambda _: None, stop)
    os.utime(tmp_path / STATE_FILE, (1, 1))
    injection.keep_asking(lambda _: None, stop)

    assert (tmp_path / STATE_FILE).stat().st_mtime == 1


def test_a_disk_that_cannot_be_written_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / STATE_FILE).mkdir()  # even root cannot write a file in its place
    answers: list[bool] = []
    injection = Injection(Inject.AUTO, tmp_path, NodeInfo("containerd://2.3.6"))  # type: ignore[arg-type]
    for _ in range(3):
        injection.keep_asking(answers.append, threading.Event())

    assert answers == [True, True, True]
    assert ["cannot be written" in each.getMessage() for each in caplog.records] == [True], "said once"
    assert [path.name for path in tmp_path.iterdir()] == [STATE_FILE], "nothing half made is left"


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "slots: 1\nstrategy: pack\nslots_for: ['NVIDIA L4=4', GPU-a=8]\nmetrics_port: 'off'\n"
    )
    environ = {"NVSHARE_DEVICE_PLUGIN_SLOTS": "2", "NVSHARE_DEVICE_PLUGIN_EXCLUDE": "GPU-b\nT4"}
    settings = read_settings({"max_per_container": "3"}, environ, TABLE.read_file(str(tmp_path / "s.yaml")))

    assert (settings.rules.slots, settings.strategy, settings.max_per_container) == (2, Strategy.PACK, 3)
    assert settings.rules.slots_for == {"NVIDIA L4": 4, "GPU-a": 8}
    assert settings.rules.exclude == {"GPU-b", "T4"}
    assert settings.metrics_port is None


def test_a_settings_file_with_an_unknown_key_is_one_sentence_and_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.yaml").write_text("slot: 1\n")

    assert main(["serve", f"--settings={tmp_path}/s.yaml"]) == 1
    assert "'slot', which is no setting. Use: also_env, also_mount" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "environ", "path"),
    [
        pytest.param({}, {}, paths.DEVICE_PLUGIN_HEALTH_SOCKET, id="the default"),
        pytest.param({}, {"NVSHARE_DEVICE_PLUGIN_HEALTH_SOCKET": "/v"}, "/v", id="the variable that `serve` reads"),
        pytest.param({"health_socket": "/f"}, {"NVSHARE_DEVICE_PLUGIN_HEALTH_SOCKET": "/v"}, "/f", id="a flag"),
    ],
)
def test_a_probe_finds_the_socket_as_serve_makes_it(flags: dict[str, str], environ: dict[str, str], path: str) -> None:
    assert read_health_socket(flags, environ) == Path(path) == read_settings(flags, environ, {}).health_socket


def test_a_probe_without_a_socket_says_so() -> None:
    with pytest.raises(BadSetting, match="--health-socket is off"):
        read_health_socket({"health_socket": "off"}, {})
    assert read_settings({"health_socket": "off"}, {}, {}).health_socket is None
