"""gRPC over unix sockets: channels, calls and servers, made from a service's own description.

Owns every use of the grpc library: the rooms know the names of this module only.
Calls are made from descriptions, so that no generated class with untyped methods is needed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

Channel = grpc.Channel
Context = grpc.ServicerContext
Handler = grpc.GenericRpcHandler
RpcError = grpc.RpcError
Answer = TypeVar("Answer", bound=Message)
Call = Callable[[Any, grpc.ServicerContext], Message | Iterator[Message]]

MAX_ANSWER_BYTES = 16 << 20
"""grpc's own limit is 4 MiB, which the pod-resources list of a large node exceeds."""
_LOOK_SECONDS = 0.02


def dial(path: str | Path) -> Channel:
    """Return a channel to a unix socket; the kubelet's server knows us as a local caller."""
    options = [
        ("grpc.default_authority", "localhost"),
        ("grpc.enable_retries", 0),
        ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
    ]
    return grpc.insecure_channel(f"unix:{path}", options=options)


def ask(channel: Channel, path: str, request: Message, answer: type[Answer], *, seconds: float) -> Answer:
    """Make one unary call of `/package.Service/Method`; raises `RpcError`."""
    result: Answer = _call(channel, path, answer)(request, timeout=seconds)
    return result


def ask_while(
    holds: Callable[[], bool], channel: Channel, path: str, request: Message, answer: type[Answer], seconds: float
) -> Answer:
    """Make a call as `ask` does, but give up with TimeoutError as soon as the condition does not hold any more."""
    under_way = _call(channel, path, answer).future(request, timeout=seconds)
    while True:
        try:
            result: Answer = under_way.result(timeout=_LOOK_SECONDS)
        except grpc.FutureTimeoutError:
            if not holds():
                under_way.cancel()
                raise TimeoutError("the call was given up: its condition does not hold any more") from None
        else:
            return result


def _call(channel: Channel, path: str, answer: type[Answer]) -> Any:
    return channel.unary_unary(
        path, request_serializer=lambda message: message.SerializeToString(), response_deserializer=answer.FromString
    )


def describe_error(error: Exception) -> str:
    """Return the other side's sentence, or the error's own where there was no answer."""
    return str(error.details()) if isinstance(error, grpc.Call) else str(error)


def serve_calls(service: ServiceDescriptor, calls: Mapping[str, Call]) -> Handler:
    """Return a handler with one function for each method; KeyError where a method has none."""
    handlers = {method.name: _handler(method, calls[method.name]) for method in service.methods}
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


def _handler(method: MethodDescriptor, call: Call) -> "grpc.RpcMethodHandler[Any, Any]":
    make: Any = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
    handler: grpc.RpcMethodHandler[Any, Any] = make(
        call,
        request_deserializer=GetMessageClass(method.input_type).FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
    return handler


def refuse(context: Context, sentence: str) -> NoReturn:
    """End a call with FAILED_PRECONDITION and a sentence for the caller."""
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, sentence)
    raise AssertionError("abort raises")


class Server:
    """A server on one unix socket, from `start` to `stop`."""

    def __init__(self, path: Path, handlers: Iterable[Handler], *, workers: int) -> None:
        self.path = path
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="kubelet-call")
        self._server = grpc.server(self._pool, options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers(tuple(handlers))

    def start(self) -> None:
        """Make the socket and serve; raises OSError or RuntimeError where the folder is not there."""
        self._server.add_insecure_port(f"unix:{self.path}")
        self._server.start()

    def stop(self, *, grace_seconds: float) -> None:
        """End all calls, those under way after the grace; return when the socket is closed."""
        self._server.stop(grace_seconds).wait()
        self._pool.shutdown(wait=False)
