"""One gRPC server on one socket, made for one registration and thrown away with it.

Owns the socket's name: unique each time, since a kubelet (1.37) that was told twice about one path refuses it for
good, and one up to 1.36 mistakes the end of an old stream for that of the new.  May import `service`, `kubelet_api`.
"""

import contextlib
import logging
import secrets
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from deviceplugin.kubelet.calls import OPTIONS, DevicePlugin, Parts, Streams
from deviceplugin.kubelet_api import REGISTRATION, VERSION, messages
from deviceplugin.kubelet_api.rpc import ask_while, dial

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
        self._board = parts.board
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="kubelet-call")
        self._server = grpc.server(self._pool, options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((DevicePlugin(parts, self.streams).handler(),))

    def start(self) -> None:
        """Serves; raises OSError or RuntimeError where the folder is not there."""
        self._server.add_insecure_port(f"unix:{self.path}")
        self._server.start()

    def register(self, kubelet_socket: Path, resource: str, *, seconds: float) -> None:
        """Tells the kubelet of this socket; it dials us from within the call.  Raises `grpc.RpcError`.

        A kubelet that begins takes away every socket it finds, and would then dial ours for ten seconds, while it
        fails the pods that come: raises TimeoutError as soon as ours is gone.
        """
        request = messages.RegisterRequest(
            version=VERSION, endpoint=self.path.name, resource_name=resource, options=OPTIONS
        )
        with dial(str(kubelet_socket)) as channel:
            call = f"/{REGISTRATION.full_name}/Register"
            ask_while(self.path.exists, channel, call, request, messages.Empty, seconds)

    def stop(self) -> None:
        """Ends the streams and takes the socket away; returns when nothing of it is left."""
        self.streams.stopping.set()
        self._board.wake()
        self._server.stop(_GRACE_SECONDS).wait()
        self._pool.shutdown(wait=False)
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
