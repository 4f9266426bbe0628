"""The turn process: puts the parts together and runs them until it is told to stop.

Owns start and end: what must be there before the first client, and that nothing is left behind after the last.
"""

import gc
import logging
import os
import resource
import secrets
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

from contract import paths
from contract.wire import MAX_CONNECTIONS
from schedulerd.control.overrides_file import SteeringFile
from schedulerd.control.server import Control, Requests
from schedulerd.core.messages import Hello
from schedulerd.core.model import Container
from schedulerd.core.node_state import Node
from schedulerd.core.turns import Turns
from schedulerd.errors import Unusable
from schedulerd.eventloop.child_process import Companion
from schedulerd.eventloop.loop import Loop
from schedulerd.identity.clients import AllocationRegistry
from schedulerd.protocol.sessions import Sessions, believed
from schedulerd.server.holders_file import Footprint
from schedulerd.server.server import Server, bind
from schedulerd.settings import Identity, Observer, Settings

log = logging.getLogger(__name__)

_FOR_EVERY_USER = 0o666
"""Containers do not run as root; who may reach the socket is decided by what is mounted."""
_FOR_ROOT = 0o600
_DESCRIPTORS = 6 * MAX_CONNECTIONS
"""A connection takes one, its process one, its container four: a map keeps a descriptor of its own."""
_YOUNG_OBJECTS = 50_000


class Believing:
    """Stand-alone: a client is what it says it is."""

    def find(self, _client: int, hello: Hello) -> Container:
        return believed(hello)


def run_turns(settings: Settings, arguments: list[str]) -> int:
    """The whole life of the turn process."""
    log.info("settings: %s", settings.words())
    _raise_descriptor_limit()
    with ExitStack() as leaving:
        loop = _build(settings, arguments, leaving)
        _calm_the_collector()
        loop.run()
    log.info("stopped; holders go on for %.1f s without a daemon", settings.announce)
    return 0


def _build(settings: Settings, arguments: list[str], leaving: ExitStack) -> Loop:
    loop, node = Loop(), Node()
    _stop_on_signals(loop)
    control_socket = _bind_control(settings.control)
    leaving.callback(settings.control.unlink, missing_ok=True)
    rules = settings.rules()
    before = settings.control.with_suffix(".footprint")
    footprint = Footprint(before, now=loop.clock(), window=rules.announce + rules.grace)
    turns = Turns(rules, epoch=secrets.token_hex(4), left_behind=footprint.left_behind)
    sessions = Sessions(turns, Believing())
    server = Server(loop, sessions)
    server.on_gate = footprint.mark
    server.on_peer = node.pids.__setitem__
    server.on_gone = node.forget
    node.refusals = sessions.refusals
    node.limits_reached = server.limits_reached
    node.loop = loop
    requests = Requests(turns, node, loop.clock)
    steering_file = SteeringFile(settings.control.with_suffix(".steering"), turns)
    steering_file.bring_back(loop.clock())
    requests.on_steered = steering_file.keep
    control = Control(loop, requests)
    server.on_notice = control.tell_notice
    _IDENTITIES[settings.identity](settings, server, control, node, leaving)
    control.listen(control_socket)
    if settings.observer is Observer.SPAWN:
        companion = Companion(loop, arguments, lambda: node.observer_spoke_at)
        leaving.callback(companion.end)
        companion.start()
    log.info("epoch %s, policy %s, control on %s", turns.grants.epoch, rules.policy.name, settings.control)
    return loop


def _listen_to_all(settings: Settings, server: Server, _control: Control, _node: Node, leaving: ExitStack) -> None:
    path = _folder(settings.sockets, "--sockets") / paths.SOCKET_NAME
    server.listen(bind(path, _FOR_EVERY_USER))
    leaving.callback(path.unlink, missing_ok=True)
    log.info("listening on %s: clients are believed", path)


def _listen_in_folders(settings: Settings, server: Server, control: Control, node: Node, leaving: ExitStack) -> None:
    folders = AllocationRegistry(settings.allocations, server, node, control.tell_observers)
    server.sessions.registry = folders
    server.on_ask = folders.ask_cluster
    control.requests.on_pod = folders.answered
    control.on_observer = folders.observer_came
    folders.start()
    leaving.callback(folders.stop)
    log.info("listening in the folders of %s", settings.allocations)


_IDENTITIES = {Identity.NONE: _listen_to_all, Identity.FOLDERS: _listen_in_folders}


def _bind_control(path: Path) -> socket.socket:
    if not path.parent.is_dir():
        try:
            path.parent.mkdir(mode=0o700)
        except OSError as error:
            raise Unusable(f"cannot make {path.parent}: {error.strerror}. Choose another path by --control.") from None
    return bind(path, _FOR_ROOT)


def _folder(path: Path, flag: str) -> Path:
    if not path.is_dir():
        raise Unusable(f"{path} is not a folder. Make it, or name another one with {flag}.")
    return path


def _raise_descriptor_limit() -> None:
    """As many as all connections can need; without the right to it, as many as there may be."""
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
    """What is there now stays; a collection of it all would stop everybody's turns for milliseconds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 100)
