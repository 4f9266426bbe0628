"""One gRPC server on one socket, made for one registration and thrown away with it.

The module owns the socket's name, which is unique each time.  A kubelet (1.37) that was told twice about one path
refuses it for ever.  A kubelet up to 1.36 mistakes the end of an old stream for the end of the new one.
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
_WORKERS = 64
"""A start waits for the runtime, for a second at worst.  Allocate must not wait for starts: the kubelet admits no other
pod meanwhile."""
_GRACE_SECONDS = 2.0
"""How long a running call may take when we stop."""


class PluginServer:
    """Serve on a new socket from `start` to `stop`."""

    def __init__(self, folder: Path, parts: Parts) -> None:
        self.path = folder / f"{PREFIX}{secrets.token_hex(4)}.sock"
        self.streams = Streams()
        self._publisher = parts.publisher
        self._server = rpc.Server(self.path, [DevicePlugin(parts, self.streams).handler()], workers=_WORKERS)

    def start(self) -> None:
        """Start to serve; raise OSError or RuntimeError where the folder does not exist."""
        self._server.start()

    def register(self, kubelet_socket: Path, resource: str, *, seconds: float) -> None:
        """Tell the kubelet the name of this socket; the kubelet dials us before the call returns.

        Raise `rpc.RpcError` where the kubelet refuses.  A kubelet that starts removes every socket that it finds.  It
        would then dial ours for ten seconds, and fail the pods that come meanwhile.  So this raises TimeoutError as
        soon as our socket is gone.
        """
        request = messages.RegisterRequest(
            version=VERSION, endpoint=self.path.name, resource_name=resource, options=OPTIONS
        )
        with rpc.dial(kubelet_socket) as channel:
            call = f"/{REGISTRATION.full_name}/Register"
            rpc.ask_while(self.path.exists, channel, call, request, messages.Empty, seconds)

    def stop(self) -> None:
        """End the streams and remove the socket; return when nothing is left."""
        self.streams.stopping.set()
        self._publisher.wake()
        self._server.stop(grace_seconds=_GRACE_SECONDS)
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()


def remove_stale_sockets(folder: Path) -> None:
    """Remove our sockets on which no process answers: killed plugins left them."""
    for path in folder.glob(f"{PREFIX}*.sock"):
        if not somebody_listens(path):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                log.info("removed %s, which an earlier plugin left behind", path.name)


def somebody_listens(path: Path) -> bool:
    """Return whether a process is behind the socket; a process that is too busy to answer counts."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True
