"""A node of temp folders, a fake kubelet, and the whole plugin in this process on GPUs that do not exist."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from deviceplugin.core.events import Registered
from deviceplugin.core.inventory import Rules
from deviceplugin.layout import Layout
from deviceplugin.settings import Inject, Settings
from tests.deviceplugin.running_plugin import FAST, RunPlugin, Setup, running
from tests.fakes.cdi_cache import CdiCache


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Make a temp folder with a short name: a socket's path may have 107 characters."""
    with tempfile.TemporaryDirectory(prefix="dp-") as folder:
        yield Path(folder)


@pytest.fixture
def settings(short_path: Path) -> Settings:
    """Return the settings of a node in a temp folder."""
    hook = short_path / "image" / "libnvshare.so"
    hook.parent.mkdir()
    hook.write_bytes(b"hook 1")
    return Settings(
        layout=Layout(short_path / "node", short_path / "cdi"),
        kubelet_folder=short_path / "k",
        pod_resources_socket=short_path / "pod-resources.sock",
        control_socket=short_path / "control.sock",
        static_cdi_folder=short_path / "etc-cdi",
        hook_file=hook,
        rules=Rules(slots=10),
        inject=Inject.CDI,
        metrics_port=None,
        health_socket=short_path / "health.sock",
        times=FAST,
    )


@pytest.fixture
def cdi_cache(settings: Settings) -> Iterator[CdiCache]:
    """Run a reader of the CDI folder in place of the runtime, since starts wait for one."""
    with CdiCache(settings.layout.cdi).running() as cache:
        yield cache


@pytest.fixture
def run_plugin(settings: Settings) -> Iterator[RunPlugin]:
    """Return `run_plugin(gpus=2, inject=…)`, which starts a plugin; the test starts the kubelet, or does not."""
    with ExitStack() as stack:

        def run(*, gpus: int = 4, **changes: object) -> Setup:
            changed = replace(settings, **changes)  # type: ignore[arg-type]
            setup = stack.enter_context(running(changed, gpus=gpus))
            stack.callback(setup.kubelet.stop)
            return setup

        yield run


@pytest.fixture
def setup(run_plugin: RunPlugin, cdi_cache: CdiCache) -> Setup:  # noqa: ARG001  it only has to run
    """Run a plugin with four GPUs, registered and with its list sent."""
    setup = run_plugin()
    setup.kubelet.start()
    setup.kubelet.wait_for_list()
    setup.events.wait_for(Registered)  # the list may come before Register's answer
    return setup
