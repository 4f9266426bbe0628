"""The turn process: put the parts together, and run them until it is told to stop.

The rule it owns: what must be there before the first client, and that nothing is left behind after the last.  Who hears
of what is said here, in the constructors' arguments, and nowhere else.
"""

import gc
import logging
import os
import resource
import secrets
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.wire.numbers import MAX_CONNECTIONS
from contract.words import paths
from schedulerd.control.observers import Observers
from schedulerd.control.overrides_file import SteeringFile
from schedulerd.control.requests import Requests
from schedulerd.control.server import Control
from schedulerd.core.messages import Hello
from schedulerd.core.model import Container
from schedulerd.core.node_state import Node
from schedulerd.core.turns import Turns
from schedulerd.errors import Unusable
from schedulerd.eventloop.child_process import Companion
from schedulerd.eventloop.connection import Connection
from schedulerd.eventloop.loop import Loop
from schedulerd.identity.clients import AllocationRegistry, Asked
from schedulerd.protocol.sessions import Registry, Sessions, believed
from schedulerd.server.holders_file import Footprint
from schedulerd.server.server import Listeners, Server, bind
from schedulerd.settings import Identity, Observer, Settings

log = logging.getLogger(__name__)

_FOR_EVERY_USER = 0o666
"""Containers do not run as root; who may reach the socket is decided by what is mounted."""
_FOR_ROOT = 0o600
_DESCRIPTORS = 6 * MAX_CONNECTIONS
"""A connection takes one, its process one, its container four: a map keeps a descriptor of its own."""
_YOUNG_OBJECTS = 50_000


class Believing:
    """The registry of a stand-alone daemon: a client is what it says it is."""

    def find(self, _client: int, hello: Hello) -> Container:
        return believed(hello)


def run_turns(settings: Settings, arguments: list[str]) -> int:
    """Run the turn process from start to end."""
    log.info("settings: %s", settings.words())
    _raise_descriptor_limit()
    with ExitStack() as leaving:
        loop = _build(settings, arguments, leaving)
        _calm_the_collector()
        loop.run()
    log.info("stopped; holders go on for %.1f s without a daemon", settings.announce)
    return 0


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """The parts that are the same however containers are known."""

    loop: Loop
    node: Node
    turns: Turns
    footprint: Footprint
    overrides: SteeringFile
    observers: Observers

    def serve(self, registry: Registry, asked: Asked) -> Server:
        """Return the server of a registry; `asked` is called for each client that the registry must look up."""
        sessions = Sessions(self.turns, registry)
        listeners = Listeners(
            gate_set=self.footprint.mark,
            connected=self.node.pids.__setitem__,
            gone=self.node.forget,
            noticed=self.observers.tell_notice,
            asked=asked,
        )
        server = Server(self.loop, sessions, listeners)
        self.node.refusals, self.node.limits_reached = sessions.refusals, server.limits_reached
        return server

    def requests(self, **listeners: Any) -> Requests:
        """Return what the control socket can be asked."""
        return Requests(self.turns, self.node, self.loop.clock, on_steered=self.overrides.keep, **listeners)


def _build(settings: Settings, arguments: list[str], leaving: ExitStack) -> Loop:
    loop = Loop()
    _stop_on_signals(loop)
    control_socket = _bind_control(settings.control)
    leaving.callback(settings.control.unlink, missing_ok=True)
    parts = _build_parts(settings, loop)
    requests = _IDENTITIES[settings.identity](settings, parts, leaving)
    Control(loop, requests, parts.observers).listen(control_socket)
    if settings.observer is Observer.SPAWN:
        companion = Companion(loop, arguments, lambda: parts.node.observer_spoke_at)
        leaving.callback(companion.end)
        companion.start()
    grants = parts.turns.grants
    log.info("epoch %s, policy %s, control on %s", grants.epoch, grants.rules.policy.name, settings.control)
    return loop


def _build_parts(settings: Settings, loop: Loop) -> _Parts:
    rules = settings.rules()
    footprint = Footprint(
        settings.control.with_suffix(".footprint"), now=loop.clock(), window=rules.announce + rules.grace
    )
    turns = Turns(rules, epoch=secrets.token_hex(4), left_behind=footprint.left_behind)
    overrides = SteeringFile(settings.control.with_suffix(".steering"), turns)
    overrides.bring_back(loop.clock())
    return _Parts(
        loop=loop,
        node=Node(loop=loop),
        turns=turns,
        footprint=footprint,
        overrides=overrides,
        observers=Observers(),
    )


def _listen_to_all(settings: Settings, parts: _Parts, leaving: ExitStack) -> Requests:
    path = _folder(settings.sockets, "--sockets") / paths.SOCKET_NAME
    parts.serve(Believing(), _nobody_is_asked).listen(bind(path, _FOR_EVERY_USER))
    leaving.callback(path.unlink, missing_ok=True)
    log.info("listening on %s: clients are believed", path)
    return parts.requests()


def _nobody_is_asked(_connection: Connection, _hello: Hello) -> None:
    raise AssertionError("a client that is believed is never looked up")


def _listen_in_folders(settings: Settings, parts: _Parts, leaving: ExitStack) -> Requests:
    folders = AllocationRegistry(settings.allocations, parts.node, serve=parts.serve, tell=parts.observers.tell)
    folders.start()
    leaving.callback(folders.stop)
    log.info("listening in the folders of %s", settings.allocations)
    return parts.requests(on_pod=folders.answered, on_observer=folders.observer_came)


_IDENTITIES: dict[Identity, Callable[[Settings, _Parts, ExitStack], Requests]] = {
    Identity.NONE: _listen_to_all,
    Identity.FOLDERS: _listen_in_folders,
}


def _bind_control(path: Path) -> socket.socket:
    if not path.parent.is_dir():
        try:
            path.parent.mkdir(mode=0o700)
        except OSError as error:
            raise Unusable(
                f"cannot make {path.parent}: {error.strerror}. Choose another path with --control."
            ) from None
    return bind(path, _FOR_ROOT)


def _folder(path: Path, flag: str) -> Path:
    if not path.is_dir():
        raise Unusable(f"{path} is not a folder. Create it, or choose another with {flag}.")
    return path


def _raise_descriptor_limit() -> None:
    """Allow as many descriptors as all connections can need; without the right to that, as many as there may be."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, max(hard, _DESCRIPTORS)))
    except (ValueError, OSError):
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
    """Keep all objects of now out of later collections, which would stop everybody's turns for milliseconds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 100)
