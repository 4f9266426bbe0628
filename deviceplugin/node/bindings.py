"""Bind the slots of a starting container to devices, and bring the spec before the runtime.

The module owns the order of the steps: the record, then the proof of the new binding, then the end of the old proof,
then the spec.  A plugin that is killed between two of them leaves a node where a start fails and is tried again, and
never one where a container gets devices of an older binding.  Starts of different containers do not wait for each
other.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from contract.allocation import Allocation
from deviceplugin.core import binding, cdi
from deviceplugin.core.binding import Start
from deviceplugin.core.events import SpecWritten, Tell
from deviceplugin.core.gpu_devices import GpuDevices
from deviceplugin.errors import NodeNotReady
from deviceplugin.node import handshake
from deviceplugin.node.files import NodeFiles

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Told:
    """What the kubelet has kept of a set of slots."""

    pod: str
    names: tuple[str, ...]
    """The CDI devices in our own answers, without their kind."""


@dataclass(slots=True)
class _Busy:
    """One lock a key, while anybody holds it or waits for it."""

    locks: dict[str, tuple[threading.Lock, int]] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def one(self, key: str) -> Iterator[None]:
        with self.guard:
            lock, users = self.locks.get(key, (threading.Lock(), 0))
            self.locks[key] = (lock, users + 1)
        try:
            with lock:
                yield
        finally:
            with self.guard:
                lock, users = self.locks.pop(key)
                if users > 1:
                    self.locks[key] = (lock, users - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bindings:
    """The bindings of one node."""

    files: NodeFiles
    devices: Callable[[], GpuDevices]
    ask_kubelet: Callable[[Sequence[str]], Told | None]
    """Return what the kubelet's checkpoint says of these slots, or None."""
    tell: Tell
    _busy: _Busy = field(default_factory=_Busy)

    def start(self, wanted: Allocation) -> Allocation:
        """Return the bound allocation of these slots, whose spec the runtime knows.

        Raise `NodeNotReady` or `NoDevices` with a sentence where the container has to wait.
        """
        with self._busy.one(wanted.key):
            record = self._record(wanted)
            if not record.names:
                return record  # it was answered with mounts, so there is no spec
            devices = self.devices()
            layout = self.files.layout
            on_disk = self.files.read_spec(record.key)
            step = binding.start(record, on_disk, lambda bound: cdi.render_spec(cdi.build_spec(bound, layout, devices)))
            if step.must_write:
                self._write(step)
            elif not self.files.has_proof(record):
                self.files.prove_binding(record)
            return step.allocation

    def _record(self, wanted: Allocation) -> Allocation:
        """Return the record that Allocate wrote; complete it from the kubelet's own before the first start."""
        found = self.files.read(wanted.key)
        record = found or wanted
        if record.binding:
            return record
        told = self.ask_kubelet(record.device_ids)
        if told is not None:
            record = binding.recover(record, told.names, told.pod)
        elif not record.names and self.files.uses_cdi:
            raise NodeNotReady(
                f"the record of allocation {record.key} is lost, and the kubelet's checkpoint does not tell which CDI"
                " devices it was given. Delete the pod and create it again"
            )
        if not record.names:
            record = binding.settle(record)
        if record != found:
            if found is None:
                log.warning("allocation %s was missing on the node and was written again", record.key)
            self.files.write(record)
        return record

    def _write(self, step: Start) -> None:
        allocation = step.allocation
        self.files.write(allocation)
        self.files.prove_binding(allocation)
        seconds = handshake.put_spec(self.files.spec_path(allocation.key), step.spec, step.wait)
        self.tell(SpecWritten(allocation, step.wait.value, seconds))
