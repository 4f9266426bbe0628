"""Who may ask at the control socket, and those of them that observe: what the turn process tells the observer.

The rule it owns: to tell nobody is no error, and an observer that does not read is let go.
"""

import logging
from collections import deque
from collections.abc import Iterator

from contract.errors import ContractError
from contract.wire.control import Happened, ToObserver, encode_to_observer
from schedulerd.core.model import Notice
from schedulerd.eventloop.connection import Broken, Connection

log = logging.getLogger(__name__)


class Asker:
    """A connection to the control socket."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        self.name = name
        self.is_open = True
        self.observes = False
        self.answers: deque[Iterator[bytes]] = deque()
        self.rest = b""

    def close(self) -> None:
        """Close the connection; a second time does nothing."""
        if self.is_open:
            self.is_open = False
            self.connection.close()


class Observers:
    """The askers that have said `observe`."""

    def __init__(self) -> None:
        self._askers: list[Asker] = []

    def add(self, asker: Asker) -> None:
        """Tell this one too, from now on."""
        asker.observes = True
        self._askers = [one for one in self._askers if one.is_open and one is not asker]
        self._askers.append(asker)

    def tell(self, said: ToObserver) -> int:
        """Send a line to each observer; return how many there were."""
        try:
            data = encode_to_observer(said)
        except ContractError as error:
            log.warning("the observer is not told of %s: %s", type(said).__name__, error)
            return 0
        return sum(self._send(asker, data) for asker in self._askers)

    def _send(self, asker: Asker, data: bytes) -> bool:
        if not asker.is_open:
            return False
        try:
            asker.connection.send(data)
        except Broken as error:
            log.warning("the observer is gone: %s", error)
            asker.close()
        return asker.is_open

    def tell_notice(self, notice: Notice) -> None:
        """Log what happened, and tell it of each container."""
        log.warning("%s: %s on %s", notice.kind, ", ".join(notice.containers), ", ".join(notice.gpus))
        for container in notice.containers:
            self.tell(Happened(notice.kind, container, notice.gpus))
