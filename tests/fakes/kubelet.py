"""A fake kubelet: the registration socket, and one client for each plugin that registers.

Use it only for faults that a real kubelet cannot be made to show; the drills run on a real one.  It does as the kubelet
does: it dials within Register, asks for options, then listens to the list.
"""

import base64
import contextlib
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from adapters.kubelet.device_plugin_api import DEVICE_PLUGIN, HEALTHY, REGISTRATION, messages
from adapters.kubelet.rpc import ask, dial, serve_calls
from contract.words import names


class Kubelet:
    """One life of a kubelet in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registrations: list[messages.RegisterRequest] = []
        self.hang: threading.Event | None = None
        """When set to an event, Register waits for it before it dials."""
        self.refusal: str | None = None
        self.on_register: Callable[[messages.RegisterRequest], None] = lambda _: None
        self.on_stream_end: Callable[[], object] = lambda: None
        self._answers: list[tuple[tuple[str, ...], messages.ContainerAllocateResponse]] = []
        self._lists: list[dict[str, bool]] = []
        self._news = threading.Condition()
        self._channel: grpc.Channel | None = None
        self._stream: Any = None
        self._server: grpc.Server | None = None

    @property
    def socket(self) -> Path:
        return self.folder / "kubelet.sock"

    def start(self) -> "Kubelet":
        """Start as the kubelet does: delete every socket of the folder, then make its own."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.iterdir():
            if path.is_socket():
                path.unlink()
        return self.start_beside()

    def start_beside(self) -> "Kubelet":
        """Start without clearing the folder."""
        self._server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((serve_calls(REGISTRATION, {"Register": self._register}),))
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()
        return self

    def stop(self) -> None:
        """End abruptly, and leave the socket file behind as after a SIGKILL."""
        if self._server is not None:
            left = self.socket.with_name("left-behind")
            with contextlib.suppress(FileNotFoundError):
                self.socket.rename(left)
            self._server.stop(0).wait()
            self._server = None
            if left.exists() and not self.socket.exists():
                left.rename(self.socket)
        self.cancel_stream()

    def cancel_stream(self) -> None:
        """Close the connection to the plugin, as kubelets up to 1.36 do when an older one ends."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _register(self, request: messages.RegisterRequest, context: grpc.ServicerContext) -> messages.Empty:
        with self._news:
            self.registrations.append(request)
            self._news.notify_all()
        self.on_register(request)
        if self.hang is not None:
            self.hang.wait(30)
        if self.refusal is not None:
            context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        self._dial(request.endpoint)
        return messages.Empty()

    def _dial(self, endpoint: str) -> None:
        channel = dial(str(self.folder / endpoint))  # another Register may be under way, for a socket that is gone
        options = f"/{DEVICE_PLUGIN.full_name}/GetDevicePluginOptions"
        ask(channel, options, messages.Empty(), messages.DevicePluginOptions, seconds=30)
        self._channel = channel
        method: Any = channel.unary_stream(
            f"/{DEVICE_PLUGIN.full_name}/ListAndWatch",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages.ListAndWatchResponse.FromString,
        )
        threading.Thread(target=self._listen, args=(method(messages.Empty()),), daemon=True).start()

    def _listen(self, stream: Any) -> None:
        with contextlib.suppress(grpc.RpcError, ValueError):
            for response in stream:
                with self._news:
                    self._lists.append({device.ID: device.health == HEALTHY for device in response.devices})
                    self._news.notify_all()
        self.on_stream_end()

    def call(self, method: str, request: Any, answer: Any) -> Any:
        """Make one call of the plugin."""
        assert self._channel is not None, "no plugin has registered"
        return ask(self._channel, f"/{DEVICE_PLUGIN.full_name}/{method}", request, answer, seconds=30)

    def wait_for_list(self, wanted: Any = bool, *, after: int = 0, seconds: float = 10.0) -> dict[str, bool]:
        """Wait for the first list after the given number of them that is as wanted, and return it."""
        with self._news:
            assert self._news.wait_for(lambda: any(map(wanted, self._lists[after:])), seconds), self._lists[after:]
            return next(filter(wanted, self._lists[after:]))

    def wait_for_registrations(self, count: int, *, seconds: float = 15) -> None:
        """Wait until so many registrations have come."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.registrations) >= count, seconds), self.registrations

    @property
    def lists(self) -> int:
        """How many lists have come."""
        return len(self._lists)

    def allocate(self, *device_ids: str) -> messages.ContainerAllocateResponse:
        """Allocate for one container."""
        request = messages.AllocateRequest(
            container_requests=[messages.ContainerAllocateRequest(devices_ids=device_ids)]
        )
        answer: messages.AllocateResponse = self.call("Allocate", request, messages.AllocateResponse)
        self._answers.append((device_ids, answer.container_responses[0]))
        return answer.container_responses[0]

    def write_checkpoint(self, pod: str = "pod-uid") -> None:
        """Write the kubelet's own record: every answer of Allocate is one container of this pod."""
        entries = [
            {
                "PodUID": pod,
                "ContainerName": f"c{number}",
                "ResourceName": names.RESOURCE,
                "DeviceIDs": {"-1": list(device_ids)},
                "AllocResp": base64.b64encode(answer.SerializeToString()).decode(),
            }
            for number, (device_ids, answer) in enumerate(self._answers)
        ]
        record = {"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 0}
        (self.folder / "kubelet_internal_checkpoint").write_text(json.dumps(record))

    def start_container(self, *device_ids: str) -> None:
        """Call PreStartContainer."""
        request = messages.PreStartContainerRequest(devices_ids=device_ids)
        self.call("PreStartContainer", request, messages.PreStartContainerResponse)

    def prefer(self, available: list[str], size: int, must: tuple[str, ...] = ()) -> list[str]:
        """Call GetPreferredAllocation for one container."""
        each = messages.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
        )
        request = messages.PreferredAllocationRequest(container_requests=[each])
        answer: messages.PreferredAllocationResponse = self.call(
            "GetPreferredAllocation", request, messages.PreferredAllocationResponse
        )
        return list(answer.container_responses[0].deviceIDs)
