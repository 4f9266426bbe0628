"""The second process: NVML, the kubelet, the API and HTTP, apart from the turn loop.

Either process may die and come back alone.  This one connects to the other's control socket, again and again.
"""

import ctypes
import logging
import os
import signal
import socket
import threading

from adapters.pages.listeners import listen_on_port
from adapters.pages.server import Server
from schedulerd.errors import Unusable
from schedulerd.eventloop.child_process import PARENT_VARIABLE
from schedulerd.observer.service import Observer
from schedulerd.settings import Settings

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1


def observe(settings: Settings) -> int:
    """Run the observer until it is told to stop."""
    _end_with_parent()
    observer = Observer(settings)
    signal.signal(signal.SIGTERM, lambda _number, _frame: _leave())
    signal.signal(signal.SIGINT, lambda _number, _frame: _leave())
    listener = _listen(settings.metrics_port)
    log.info("metrics on port %d", listener.getsockname()[1])
    Server(listener, observer.pages()).start()
    threading.Thread(target=observer.beat_for_ever, name="beat", daemon=True).start()
    threading.Thread(target=observer.look_for_ever, name="cards", daemon=True).start()
    observer.follow()
    return 0


def _listen(port: int) -> socket.socket:
    try:
        return listen_on_port(port)
    except OSError as error:
        raise Unusable(f"cannot serve on port {port}: {error.strerror}. Choose another with --metrics-port.") from None


def _leave() -> None:
    """End at once: there is nothing to save, and no thread may keep the process alive."""
    os._exit(0)


def _end_with_parent() -> None:
    """End with the turn process where it started this one; an observer that was started alone goes on."""
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is None:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        os._exit(0)  # it died before we asked to be told
