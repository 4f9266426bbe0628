"""One gRPC server on one socket, made for one registration and thrown away with it.

Owns the socket's name: unique each time, since a kubelet (1.37) that was told twice about one path refuses it for
good, and one up to 1.36 mistakes the end of an old stream for that of the new.
"""

import contextlib
import logging
import secrets
import socket
from pathlib import Path

from adapters.kubelet import rpc
from adapters.kubelet.device_plugin_api import REGISTRATION, VERSION, messages
from deviceplugin.kubelet.calls import OPTIONS, DevicePlugin, Parts, Streams

log = logging.getLogger(__name__)
PREFIX = "nvshare-gpu-"
_WORKERS = 8
_GRACE_SECONDS = 2.0
"""How long a call under way may take when we stop."""


class PluginServer:
    """Serves on a new socket from `start` to `stop`."""

    def __init__(self, folder: Path, parts: Parts) -> None:
        self.path = folder / f"{PREFIX}{secrets.token_hex(4)}.sock"
        self.streams = Streams()
        self._publisher = parts.publisher
        self._server = rpc.Server(self.path, [DevicePlugin(parts, self.streams).handler()], workers=_WORKERS)

    def start(self) -> None:
        """Serves; raises OSError or RuntimeError where the folder is not there."""
        self._server.start()

    def register(self, kubelet_socket: Path, resource: str, *, seconds: float) -> None:
        """Tells the kubelet of this socket; it dials us from within the call.  Raises `rpc.RpcError`.

        A kubelet that begins takes away every socket it finds, and would then dial ours for ten seconds, while it
        fails the pods that come: raises TimeoutError as soon as ours is gone.
        """
        request = messages.RegisterRequest(
            version=VERSION, endpoint=self.path.name, resource_name=resource, options=OPTIONS
        )
        with rpc.dial(kubelet_socket) as channel:
            call = f"/{REGISTRATION.full_name}/Register"
            rpc.ask_while(self.path.exists, channel, call, request, messages.Empty, seconds)

    def stop(self) -> None:
        """Ends the streams and takes the socket away; returns when nothing of it is left."""
        self.streams.stopping.set()
        self._publisher.wake()
        self._server.stop(grace_seconds=_GRACE_SECONDS)
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()


def remove_stale_sockets(folder: Path) -> None:
    """Takes away sockets of predecessors that were killed: those of ours on which nobody answers."""
    for path in folder.glob(f"{PREFIX}*.sock"):
        if not somebody_listens(path):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                log.info("took away %s, left by a predecessor", path.name)


def somebody_listens(path: Path) -> bool:
    """Is there a process behind the socket's name?  One that is too busy to answer is there, too."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True
