"""Probes of a running plugin through its socket file, whatever strangers do to the port of its metrics."""

import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from deviceplugin.__main__ import main
from deviceplugin.errors import BadSetting
from deviceplugin.plugin import Plugin
from deviceplugin.settings import Settings
from tests.fakes.gpus import FakeLibrary, make_gpu

PATIENCE = 20
WELL = (
    "The node is prepared, and GPUs are watched. NVML is a fake."
    " GPU devices: environment. Kubelet or runtime take no CDI devices, so NVIDIA's runtime must read"
    " the environment.\n"
)


@contextmanager
def served(settings: Settings) -> Iterator[tuple[Plugin, int]]:
    """Serve a plugin's pages and yield the port of its metrics; the rest of the plugin does not run."""
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    plugin = Plugin(replace(settings, metrics_port=port), FakeLibrary(make_gpu(0)))
    with plugin._served():
        yield plugin, port


def probe(settings: Settings, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return the exit code, and the text that the kubelet would write into its event."""
    code = main(["healthz", f"--health-socket={settings.health_socket}"])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_a_healthy_plugin_says_so(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    with served(settings) as (plugin, _):
        plugin._is_prepared = True
        assert probe(settings, capsys) == (0, WELL)


def test_an_unhealthy_plugin_says_why(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    with served(settings):
        code, said = probe(settings, capsys)

    assert (code, "The node is not prepared yet" in said) == (1, True)


def test_a_plugin_whose_driver_was_upgraded_is_unhealthy_so_that_the_kubelet_makes_a_new_container(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(settings) as (plugin, _):
        plugin._is_prepared = True
        assert isinstance(plugin._library, FakeLibrary)
        plugin._library.is_outdated = True
        assert probe(settings, capsys)[0] == 1


def test_a_plugin_that_is_gone_is_unhealthy(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    with served(settings):
        pass
    code, said = probe(settings, capsys)

    assert (code, "Is it running" in said) == (1, True)


def test_silent_connections_keep_neither_probes_nor_scrapes_out(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(settings) as (plugin, port), ExitStack() as stack:
        plugin._is_prepared = True
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics?x=1", timeout=PATIENCE) as answer:
            assert b"nvshare_device_plugin_load_fresh" in answer.read()
        assert probe(settings, capsys)[0] == 0


def test_a_scraper_gets_the_form_that_it_accepts(settings: Settings) -> None:
    with served(settings) as (_, port):
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}
        )
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")


def test_threads_end_with_the_pages(settings: Settings) -> None:
    before = set(threading.enumerate())
    with served(settings):
        made = set(threading.enumerate()) - before
    for thread in made:
        thread.join(PATIENCE)

    assert len(made) == 5, "a thread of I/O for each place, and one for each page"
    assert not any(thread.is_alive() for thread in made)


@pytest.mark.parametrize("flag", ["--health-socket", "--metrics-port"])
def test_a_port_or_path_that_cannot_be_used_is_one_sentence(settings: Settings, flag: str, short_path: Path) -> None:
    with socket.create_server(("", 0)) as taken:
        odd = {
            "--health-socket": {"health_socket": short_path / "nowhere" / "s"},
            "--metrics-port": {"metrics_port": taken.getsockname()[1]},
        }
        plugin = Plugin(replace(settings, **odd[flag]), FakeLibrary(make_gpu(0)))
        with pytest.raises(BadSetting, match=flag), plugin._served():
            pass


def test_a_probe_loads_nothing_that_takes_long() -> None:
    code = "import sys, deviceplugin.__main__; print({'grpc', 'kubernetes', 'pynvml'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
