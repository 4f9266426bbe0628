"""The commands as processes: `serve` under its supervisor, `explain`, and their sentences when something is wrong."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from contract.wire.load import GpuLoad, Load, encode_load
from deviceplugin.__main__ import main
from deviceplugin.kubelet.server import PREFIX
from deviceplugin.settings import Settings
from deviceplugin.supervisor import next_wait
from testbed.cluster.machine.processes import wait_until
from tests.deviceplugin.software_gpus import ROOT, SIMGPU, environment
from tests.fakes.kubelet import Kubelet

pytestmark = pytest.mark.skipif(
    not (SIMGPU / "libnvidia-ml.so.1").exists(), reason="build/simgpu is not built: make native"
)


def serve_command(settings: Settings, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "deviceplugin", "serve", f"--node-root={settings.layout.root}"),
        *(f"--cdi-folder={settings.layout.cdi}", f"--kubelet-folder={settings.kubelet_folder}"),
        *(f"--control-socket={settings.control_socket}", f"--pod-resources-socket={settings.pod_resources_socket}"),
        *(f"--hook-file={settings.hook_file}", "--inject=cdi", "--metrics-port=0", *more),
        f"--health-socket={settings.health_socket}",
    ]


@pytest.fixture
def serving(settings: Settings, short_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Kubelet]]:
    """Run the command on the software GPU's NVML, with a kubelet."""
    kubelet = Kubelet(settings.kubelet_folder).start()
    command = serve_command(settings, "--slots-for=Tesla T4=2")
    process = subprocess.Popen(command, cwd=ROOT, env=environment(short_path))
    try:
        kubelet.wait_for_list(seconds=30)
        yield process, kubelet
    finally:
        process.terminate()
        process.wait(20)
        kubelet.stop()


def spare_of(process: subprocess.Popen[bytes]) -> psutil.Process:
    """Return the younger child, once it exists."""
    wait_until(lambda: len(psutil.Process(process.pid).children()) == 2, what="there is a spare", seconds=10)
    return max(psutil.Process(process.pid).children(), key=lambda child: child.create_time())


def worker_of(process: subprocess.Popen[bytes]) -> psutil.Process:
    """Return the elder child."""
    return min(psutil.Process(process.pid).children(), key=lambda child: child.create_time())


def own_sockets(kubelet: Kubelet) -> list[Path]:
    return list(kubelet.folder.glob(f"{PREFIX}*.sock"))


def test_it_serves_what_nvml_finds_and_ends_clean_when_told(serving: tuple[subprocess.Popen[bytes], Kubelet]) -> None:
    process, kubelet = serving
    assert len(kubelet.wait_for_list()) == 22
    spare = spare_of(process)
    process.terminate()

    assert process.wait(20) == 0
    with contextlib.suppress(psutil.NoSuchProcess):
        spare.wait(10)
    assert not spare.is_running()
    assert own_sockets(kubelet) == []


def test_a_killed_worker_is_followed_by_its_spare(serving: tuple[subprocess.Popen[bytes], Kubelet]) -> None:
    process, kubelet = serving
    for _ in range(3):
        before, spare = kubelet.lists, spare_of(process)
        worker_of(process).kill()
        kubelet.wait_for_list(after=before, seconds=20)
        assert worker_of(process) == spare

    assert process.poll() is None
    assert len(own_sockets(kubelet)) == 1, "sockets of the killed ones are taken away"


def test_a_killed_spare_has_a_successor_and_the_worker_continues(
    serving: tuple[subprocess.Popen[bytes], Kubelet],
) -> None:
    process, kubelet = serving
    worker, spare = worker_of(process), spare_of(process)
    spare.kill()
    wait_until(lambda: spare_of(process) != spare, what="there is another spare", seconds=10)

    assert worker_of(process) == worker
    assert len(kubelet.registrations) == 1


def test_a_worker_is_killed_with_its_spare_and_followed_all_the_same(
    serving: tuple[subprocess.Popen[bytes], Kubelet],
) -> None:
    process, kubelet = serving
    before = kubelet.lists
    for child in (spare_of(process), worker_of(process)):
        child.kill()

    kubelet.wait_for_list(after=before, seconds=20)


def test_a_spare_serves_sooner_than_a_new_plugin(settings: Settings, short_path: Path) -> None:
    """Measure what a spare saves: it has loaded the code and has seen the GPUs."""
    kubelet = Kubelet(settings.kubelet_folder).start()
    began = time.monotonic()
    process = subprocess.Popen(serve_command(settings), cwd=ROOT, env=environment(short_path))
    try:
        kubelet.wait_for_list(seconds=30)
        cold = time.monotonic() - began
        warm = min(seconds_without(process, kubelet) for _ in range(3))
    finally:
        process.terminate()
        process.wait(20)
        kubelet.stop()

    assert warm < cold / 3, f"{warm:.3f} s against {cold:.3f} s"


def seconds_without(process: subprocess.Popen[bytes], kubelet: Kubelet) -> float:
    """Return the seconds from the worker's death to its successor's list."""
    spare_of(process)
    before, began = kubelet.lists, time.monotonic()
    worker_of(process).kill()
    kubelet.wait_for_list(after=before, seconds=20)
    return time.monotonic() - began


def test_a_killed_supervisor_takes_worker_and_spare_with_it(serving: tuple[subprocess.Popen[bytes], Kubelet]) -> None:
    process, _ = serving
    both = [spare_of(process), worker_of(process)]
    process.send_signal(signal.SIGKILL)

    for child in both:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.wait(10)
        assert not child.is_running()


@pytest.mark.parametrize(
    ("wait", "lived", "expected"),
    [
        pytest.param(0.0, 60.0, 0.1, id="after a long life: almost at once"),
        pytest.param(5.0, 60.0, 0.1, id="and whatever was before is forgotten"),
        pytest.param(0.0, 0.9, 0.1, id="after a short one: almost at once"),
        pytest.param(0.1, 0.9, 0.2, id="after the next: later"),
        pytest.param(4.0, 0.9, 5.0, id="but never later than a few seconds"),
    ],
)
def test_wait_for_the_next_spare(wait: float, lived: float, expected: float) -> None:
    assert next_wait(wait, lived=lived) == expected


_TOLD_IN_ITS_WAIT = """
import os, signal, threading
from deviceplugin.plugin import stop_when_told

stop = stop_when_told()
with stop._cond:  # as within stop.wait(), where a signal may come
    os.kill(os.getpid(), signal.{name})
    threading.Event().wait(0.2)
assert stop.wait(10)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_to_end_is_noticed_during_a_wait(name: str) -> None:
    code = _TOLD_IN_ITS_WAIT.format(name=name)
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=30)

    assert (ended.returncode, ended.stderr) == (0, "")


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deviceplugin", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **more}, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(["serve", "--slots=0"], "It must be a whole number from 1 to 1000", id="an odd value"),
        pytest.param(["serve", "--hook-file=/nowhere"], "--hook-file", id="no hook"),
        pytest.param(["explain", "--available=x", "--size=1"], "GPU-UUID", id="not a device id"),
        pytest.param(
            ["explain", "--available=GPU-a__0", "--size=1", "--weights=default", "--load=/nowhere"],
            "Give --load a control socket or a file",
            id="no load",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_an_exit_code(arguments: list[str], sentence: str, short_path: Path) -> None:
    folders = [f"{flag}={short_path}" for flag in ("--node-root", "--kubelet-folder", "--cdi-folder")]
    elsewhere = [*folders, "--metrics-port=0", "--health-socket=off", "--inject=cdi"]
    ended = run(*arguments, *(elsewhere if arguments[0] == "serve" else []), **environment(short_path))

    assert ended.returncode == 1
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len([line for line in ended.stderr.splitlines() if line.startswith("nvshare-device-plugin: ")]) == 1


def test_explain_shows_every_number_behind_a_choice(tmp_path: Path) -> None:
    load = tmp_path / "load"
    load.write_bytes(encode_load(Load((GpuLoad(uuid="GPU-a", busy=0.5), GpuLoad(uuid="GPU-b", waiting=1)), 0)))
    words = ("explain", "--available=GPU-a__0,GPU-a__1,GPU-b__0", "--size=2", "--slots=2", "--numa=GPU-a=0")
    by_count, by_load = run(*words), run(*words, "--weights=default", f"--load={load}")

    assert re.search(r"GPU-a +2 +2 +0", by_count.stdout)
    assert "answer: GPU-a__0 GPU-b__0" in by_count.stdout
    # taken 0, busy 0.5, waiting 0, sum 0.5; taken 0.5, busy 0, waiting 0.5 * 1/2, sum 0.75
    assert re.search(r"GPU-a +2 +2 +0 +0.000 +0.500 +0.000 +0.500", by_load.stdout)
    assert re.search(r"GPU-b +1 +2 +- +0.500 +0.000 +0.250 +0.750", by_load.stdout)


def test_explain_says_when_allocate_would_refuse() -> None:
    answer = run("explain", "--available=GPU-a__0,GPU-a__1", "--size=2").stdout

    assert "Allocate would refuse this container (SameGpu)" in answer


def read_port(process: subprocess.Popen[bytes]) -> str:
    """Read the port of --metrics-port=0 from the log; keep reading what comes after it."""
    assert process.stderr is not None
    for line in process.stderr:
        match = re.search(rb"metrics on port ([0-9]+)", line)
        if match:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return match[1].decode()
    raise AssertionError("it ended before it served metrics")


def test_a_plugin_that_waits_for_a_driver_says_so_and_ends_when_told(settings: Settings) -> None:
    command = serve_command(settings, "--no-supervisor")
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as process:
        try:
            port = read_port(process)
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10)
            with caught.value as page:
                assert (page.code, b"not prepared yet" in page.read()) == (503, True)
        finally:
            process.terminate()
        assert process.wait(20) == 0


CARD = "GPU-00000000-0000-0000-0000-000000000001"
SPEC = f"""
cdiVersion: 0.5.0
kind: nvidia.com/gpu
containerEdits: {{deviceNodes: [{{path: /dev/nvidiactl}}, {{path: /dev/nvidia-uvm}}]}}
devices:
- name: {CARD}
  containerEdits: {{deviceNodes: [{{path: /dev/nvidia1}}]}}
"""


def explain_devices(folder: Path, *flags: str) -> list[str]:
    folders = (f"--cdi-folder={folder}", f"--static-cdi-folder={folder}", f"--node-root={folder}")
    return ["explain", "--devices", *flags, *folders]


def test_explain_says_where_devices_come_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nvidia.yaml").write_text(SPEC)
    assert main(explain_devices(tmp_path, f"--card={CARD}=1", "--card=GPU-2=2")) == 0
    source, first, second = capsys.readouterr().out.splitlines()

    assert source.startswith(f"GPU devices: nvidia-cdi. They are copied from {tmp_path}/nvidia.yaml (nvidia.com/gpu).")
    assert first == (
        f"{CARD} (/dev/nvidia1): /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia1; 0 mounts, 0 hooks,"
        " NVIDIA_VISIBLE_DEVICES=void"
    )
    assert second.startswith("GPU-2 (/dev/nvidia2): its containers wait.")


@pytest.mark.parametrize(
    "flags",
    [["explain"], ["explain", "--size=1"], ["explain", "--devices=x"], ["explain", "--devices", "--card=GPU-1"]],
)
def test_explain_asked_half_a_question_is_one_sentence(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(flags) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_metrics_tell_slots_calls_and_refusals(settings: Settings, short_path: Path) -> None:
    kubelet = Kubelet(settings.kubelet_folder).start()
    command = serve_command(settings, "--no-supervisor")
    with subprocess.Popen(command, cwd=ROOT, env=environment(short_path), stderr=subprocess.PIPE) as process:
        try:
            port = read_port(process)
            ids = list(kubelet.wait_for_list(seconds=30))
            kubelet.prefer(ids, 1)
            kubelet.allocate(ids[0])
            with contextlib.suppress(Exception):
                kubelet.allocate(ids[0], ids[1])
            text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
        finally:
            process.terminate()
            process.wait(20)
            kubelet.stop()

    assert 'nvshare_device_plugin_allocations_total{vgpus="1"} 1.0' in text
    assert 'nvshare_device_plugin_refusals_total{reason="SameGpu"} 1.0' in text
    assert 'nvshare_device_plugin_refusals_total{reason="UnknownDevice"} 0.0' in text
    assert 'nvshare_device_plugin_call_seconds_count{call="Allocate"} 2.0' in text
    assert 'nvshare_device_plugin_registrations_total{cause="first"} 1.0' in text
    assert text.count("nvshare_device_plugin_slots{") == 3
