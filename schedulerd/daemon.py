"""The turn process: puts the parts together and runs them until it is told to stop.

Owns start and end: what must be there before the first client, and that nothing is left behind after the last.
May import all of this room but the observer, which lives in a process of its own.
"""

import gc
import logging
import os
import resource
import secrets
import signal
import socket
from contextlib import suppress
from pathlib import Path

from contract import paths
from schedulerd.desk import Desk, believed
from schedulerd.errors import Unusable
from schedulerd.loop import Loop
from schedulerd.messages import Hello
from schedulerd.model import Container
from schedulerd.server import Server, bind
from schedulerd.settings import Settings
from schedulerd.turns import Turns

log = logging.getLogger(__name__)

_FOR_EVERY_USER = 0o666
"""Containers do not run as root; who may reach the socket is decided by what is mounted."""
_YOUNG_OBJECTS = 50_000


class Believing:
    """Stand-alone: a client is what it says it is."""

    def find(self, _client: int, hello: Hello) -> Container:
        return believed(hello)


def run_turns(settings: Settings, _arguments: list[str]) -> int:
    """The whole life of the turn process."""
    log.info("settings: %s", settings.words())
    _raise_descriptor_limit()
    loop = Loop()
    _stop_on_signals(loop)
    turns = Turns(settings.rules(), epoch=secrets.token_hex(4), now=loop.clock(), restarted=False)
    server = Server(loop, Desk(turns, Believing()))
    path = _folder(settings.sockets, "--sockets") / paths.SOCKET_NAME
    server.listen(bind(path, _FOR_EVERY_USER))
    log.info("listening on %s, epoch %s, policy %s", path, turns.grants.epoch, turns.rules.policy.name)
    _calm_the_collector()
    try:
        loop.run()
    finally:
        with suppress(OSError):
            path.unlink()
    log.info("stopped; holders go on for %.1f s without a daemon", settings.announce)
    return 0


def _folder(path: Path, flag: str) -> Path:
    if not path.is_dir():
        raise Unusable(f"{path} is not a folder. Make it, or name another one with {flag}.")
    return path


def _raise_descriptor_limit() -> None:
    """A connection takes two descriptors, a container two: the soft limit of 1024 would be reached at once."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _stop_on_signals(loop: Loop) -> None:
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.detach())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    descriptor = reader.detach()

    def told(_mask: int) -> None:
        os.read(descriptor, 16)
        loop.stop()

    loop.watch(descriptor, told)


def _calm_the_collector() -> None:
    """What is there now stays; a collection of it all would stop everybody's turns for milliseconds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 100)
