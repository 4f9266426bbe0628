"""The five calls of the kubelet; each one translates a message, calls a core, and translates the answer.

The module owns two rules.  GetPreferredAllocation never raises, because the kubelet would reject the pod.  And no call
waits for the network, because the kubelet admits no other pod of the node meanwhile.
"""

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from adapters.kubelet import rpc
from adapters.kubelet.device_plugin_api import DEVICE_PLUGIN, HEALTHY, UNHEALTHY, messages
from contract.allocation import Allocation
from contract.sharing import placement
from contract.words.reasons import ReasonCode, Refusal
from deviceplugin.core import binding, cdi
from deviceplugin.core.allocation import allocate
from deviceplugin.core.device_list import DeviceList
from deviceplugin.core.events import Allocated, CallRefused, CallTook, Tell
from deviceplugin.errors import ALLOCATION_FAILED, NO_DEVICES, NODE_NOT_READY, BadSpec, NodeNotReady, NoDevices, Refused
from deviceplugin.gpus.publisher import Publisher
from deviceplugin.layout import Layout
from deviceplugin.node.files import NodeFiles

log = logging.getLogger(__name__)
OPTIONS = messages.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
_LOOK_SECONDS = 5.0
"""How long a stream sleeps when nothing changes and nothing wakes it."""


class Binder(Protocol):
    """The binding of slots to devices."""

    def start(self, wanted: Allocation) -> Allocation:
        """Return the bound allocation of these slots; raise `NodeNotReady` or `NoDevices` where it has to wait."""


class StartCheck(Protocol):
    """The check before a container starts."""

    def check_hook(self) -> None:
        """Raise `NodeNotReady` where the container would run without the hook."""

    def check_scheduler(self, allocation: Allocation) -> None:
        """Report a scheduler that does not answer on the allocation's socket."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts that the calls work with."""

    publisher: Publisher
    files: NodeFiles
    tell: Tell
    bindings: Binder
    start_check: StartCheck
    policy: Callable[[], placement.Policy]
    """Return the placement's policy from memory only: a background thread keeps it."""
    max_per_container: int = 0
    """0: no limit."""
    clock: Callable[[], float] = time.time


@dataclass(slots=True)
class Streams:
    """Count the streams, so that the registrar sees whether the kubelet listens."""

    opened: int = 0
    open_now: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set by ourselves before we end the streams.  An end without it was caused by the kubelet."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Count one stream while it lives."""
        with self._lock:
            self.opened, self.open_now = self.opened + 1, self.open_now + 1
        try:
            yield
        finally:
            with self._lock:
                self.open_now -= 1


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call that may be refused: its name, its number of slots, and the reason to give when the node is broken."""

    call: str
    size: int
    when_broken: ReasonCode


class DevicePlugin:
    """The calls of one server; each registration makes a new one."""

    def __init__(self, parts: Parts, streams: Streams) -> None:
        self._parts = parts
        self._streams = streams

    def handler(self) -> rpc.Handler:
        """Return the calls in the form that a gRPC server needs."""
        calls: dict[str, rpc.Call] = {
            "GetDevicePluginOptions": lambda _request, _context: OPTIONS,
            "ListAndWatch": self.list_and_watch,
            "GetPreferredAllocation": self.prefer,
            "Allocate": self.allocate,
            "PreStartContainer": self.check_start,
        }
        return rpc.serve_calls(DEVICE_PLUGIN, calls)

    def list_and_watch(self, _request: messages.Empty, context: rpc.Context) -> Iterator[messages.ListAndWatchResponse]:
        """Yield the device list now, and again whenever it changes."""
        publisher, edition = self._parts.publisher, 0
        context.add_callback(publisher.wake)
        with self._streams.one():
            while context.is_active() and not self._streams.stopping.is_set():
                newest, device_list = publisher.wait_for_edition(edition, seconds=_LOOK_SECONDS)
                if newest > edition:
                    edition = newest
                    yield list_devices(device_list)

    def prefer(
        self, request: messages.PreferredAllocationRequest, _context: rpc.Context
    ) -> messages.PreferredAllocationResponse:
        """Answer which slots are best; never raise."""
        began = time.perf_counter()
        answer = prefer(request, self._parts.publisher.device_list, self._parts.policy)
        self._parts.tell(CallTook("GetPreferredAllocation", time.perf_counter() - began))
        return answer

    def allocate(self, request: messages.AllocateRequest, context: rpc.Context) -> messages.AllocateResponse:
        """Write each container's allocation and answer with its parts, or refuse with the reason."""
        sizes = [len(each.devices_ids) for each in request.container_requests]
        with self._answering(_Asked("Allocate", max(sizes, default=0), ALLOCATION_FAILED), context):
            answers = [self._allocate_one(tuple(each.devices_ids)) for each in request.container_requests]
        return messages.AllocateResponse(container_responses=answers)

    def check_start(
        self, request: messages.PreStartContainerRequest, context: rpc.Context
    ) -> messages.PreStartContainerResponse:
        """Bind the slots, write what is missing on the node, or refuse: the kubelet tries again later."""
        with self._answering(_Asked("PreStartContainer", len(request.devices_ids), NODE_NOT_READY), context):
            self._check_start(tuple(request.devices_ids))
        return messages.PreStartContainerResponse()

    @contextlib.contextmanager
    def _answering(self, asked: _Asked, context: rpc.Context) -> Iterator[None]:
        """Measure the call, and turn our errors into answers to the kubelet."""
        began = time.perf_counter()
        try:
            yield
        except Refused as refused:
            self._refuse(asked, refused.refusal, context)
        except NoDevices as error:
            remedy = "The container waits, and the kubelet tries again. `nvshare-device-plugin healthz` says the same."
            self._refuse(asked, Refusal(NO_DEVICES, str(error), remedy), context)
        except (NodeNotReady, BadSpec, OSError) as error:
            remedy = "See the plugin's log and the node's disk. The kubelet tries again."
            self._refuse(asked, Refusal(asked.when_broken, f"The node is not ready: {error}", remedy), context)
        finally:
            self._parts.tell(CallTook(asked.call, time.perf_counter() - began))

    def _allocate_one(self, device_ids: tuple[str, ...]) -> messages.ContainerAllocateResponse:
        parts = self._parts
        allocation = allocate(
            device_ids, parts.publisher.device_list.inventory, most=parts.max_per_container, now=parts.clock()
        )
        if parts.files.uses_cdi:
            # a name that never was: no runtime can have an older spec of it
            allocation = binding.tell(allocation, parts.files.read(allocation.key), secrets.token_hex(4))
        else:
            allocation = binding.settle(allocation)
        parts.files.write(allocation)
        parts.tell(Allocated(allocation))
        return answer_for(allocation, parts.files.layout)

    def _check_start(self, device_ids: tuple[str, ...]) -> None:
        """Check that a container finds the hook, then bind its slots to devices."""
        parts = self._parts
        wanted = allocate(device_ids, parts.publisher.device_list.inventory, most=0, now=parts.clock())
        parts.start_check.check_hook()
        parts.start_check.check_scheduler(parts.bindings.start(wanted))

    def _refuse(self, asked: _Asked, refusal: Refusal, context: rpc.Context) -> NoReturn:
        self._parts.tell(CallRefused(refusal, asked.size))
        rpc.refuse(context, str(refusal))


def list_devices(device_list: DeviceList) -> messages.ListAndWatchResponse:
    """Return the whole list as a message.

    It has no topology.  With topology the kubelet takes a container's slots from one NUMA node before it asks us, and
    that may be one GPU.  The placement uses closeness as its own tie-breaker instead.
    """
    devices = (
        messages.Device(ID=device_id, health=HEALTHY if healthy else UNHEALTHY)
        for device_id, healthy in device_list.devices()
    )
    return messages.ListAndWatchResponse(devices=devices)


def prefer(
    request: messages.PreferredAllocationRequest, device_list: DeviceList, policy: Callable[[], placement.Policy]
) -> messages.PreferredAllocationResponse:
    """Answer for each container.  An empty answer leaves the choice to the kubelet, where our own choice failed."""
    answer = messages.PreferredAllocationResponse()
    for each in request.container_requests:
        answer.container_responses.add(deviceIDs=_prefer_one(each, device_list, policy))
    return answer


def _prefer_one(
    each: messages.ContainerPreferredAllocationRequest, device_list: DeviceList, policy: Callable[[], placement.Policy]
) -> tuple[str, ...]:
    asked = placement.Request(
        available=tuple(each.available_deviceIDs), must=tuple(each.must_include_deviceIDs), size=each.allocation_size
    )
    try:
        return placement.prefer(asked, device_list.inventory, policy())
    except Exception:  # the kubelet rejects the pod when this call raises, so no mistake of ours may raise
        log.exception("placement failed: the kubelet chooses the slots by itself")
        return ()


def answer_for(allocation: Allocation, layout: Layout) -> messages.ContainerAllocateResponse:
    """Return what the kubelet passes to the runtime: the newest name of the allocation, or all parts without CDI."""
    if allocation.names:
        return messages.ContainerAllocateResponse(
            cdi_devices=[messages.CDIDevice(name=cdi.device_name(allocation.names[-1]))]
        )
    edits = cdi.plain_edits(allocation, layout)
    mounts = [
        messages.Mount(container_path=bind.container, host_path=str(bind.host), read_only=bind.read_only)
        for bind in edits.binds
    ]
    return messages.ContainerAllocateResponse(envs=dict(edits.env), mounts=mounts)
