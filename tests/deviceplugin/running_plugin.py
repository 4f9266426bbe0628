"""The whole plugin in this process, on a node of temp folders and GPUs that do not exist."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from deviceplugin.gpus.publisher import Publisher
from deviceplugin.plugin import Plugin
from deviceplugin.settings import Settings, Times
from tests.fakes.gpus import FakeLibrary, PluginEvents, make_gpu
from tests.fakes.kubelet import Kubelet

FAST = Times(rescan=0.2, check=0.05, quiet=0.2, release=0.2, report=0.05, load_fresh=2.0)


@dataclass
class Setup:
    """Everything a test may touch."""

    kubelet: Kubelet
    library: FakeLibrary
    plugin: Plugin
    events: PluginEvents
    settings: Settings

    @property
    def publisher(self) -> Publisher:
        return self.plugin.publisher


RunPlugin = Callable[..., Setup]


@contextmanager
def running(settings: Settings, *, gpus: int = 4) -> Iterator[Setup]:
    """Run the plugin in a thread; the test's kubelet decides whether it gets registered."""
    library = FakeLibrary(*(make_gpu(number) for number in range(gpus)))
    events, stop = PluginEvents(), threading.Event()
    plugin = Plugin(settings, library, listener=events.remember)
    thread = threading.Thread(target=plugin.run, args=(stop,))
    thread.start()
    try:
        yield Setup(Kubelet(settings.kubelet_folder), library, plugin, events, settings)
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive(), "the plugin does not end"
