"""gRPC handlers and stubs made from a service's own description, typed enough for mypy.

Owns how a description becomes calls, so that no generated class with untyped CamelCase methods is needed.
May import grpc and protobuf only.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

Answer = TypeVar("Answer", bound=Message)
_LOOK_SECONDS = 0.02
Call = Callable[[Any, grpc.ServicerContext], Message | Iterator[Message]]


def serve_calls(service: ServiceDescriptor, calls: Mapping[str, Call]) -> grpc.GenericRpcHandler:
    """A handler with one function for each method of the service; a method without one is a mistake of ours."""
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


def ask(channel: grpc.Channel, path: str, request: Message, answer: type[Answer], *, seconds: float) -> Answer:
    """One unary call of `/package.Service/Method`; raises `grpc.RpcError`."""
    result: Answer = _call(channel, path, answer)(request, timeout=seconds)
    return result


def ask_while(
    holds: Callable[[], bool], channel: grpc.Channel, path: str, request: Message, answer: type[Answer], seconds: float
) -> Answer:
    """As `ask`, given up as soon as the condition does not hold any more; that raises TimeoutError."""
    under_way = _call(channel, path, answer).future(request, timeout=seconds)
    while True:
        try:
            result: Answer = under_way.result(timeout=_LOOK_SECONDS)
        except grpc.FutureTimeoutError:
            if not holds():
                under_way.cancel()
                raise TimeoutError("what was asked for is no longer there") from None
        else:
            return result


def _call(channel: grpc.Channel, path: str, answer: type[Answer]) -> Any:
    return channel.unary_unary(
        path, request_serializer=lambda message: message.SerializeToString(), response_deserializer=answer.FromString
    )


def dial(path: str) -> grpc.Channel:
    """A channel to a unix socket; the kubelet's server knows us as a local caller."""
    return grpc.insecure_channel(
        f"unix:{path}", options=[("grpc.default_authority", "localhost"), ("grpc.enable_retries", 0)]
    )
