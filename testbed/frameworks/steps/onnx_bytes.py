"""An ONNX model as bytes, written field by field: the format is protobuf, and so little of it needs no library."""

IR_VERSION = 8
OPSET = 13
FLOAT = 1


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _tensor_info(name: str, size: int) -> bytes:
    dimension = _bytes(1, _number(1, size))
    tensor = _number(1, FLOAT) + _bytes(2, dimension + dimension)
    return _text(1, name) + _bytes(2, _bytes(1, tensor))


def _node(operation: str, inputs: tuple[str, ...], output: str) -> bytes:
    return b"".join(_text(1, each) for each in inputs) + _text(2, output) + _text(4, operation)


def product_and_sum(size: int) -> bytes:
    """Return a model with y = x·x + x, for square matrices of this size."""
    graph = _bytes(1, _node("MatMul", ("x", "x"), "product")) + _bytes(1, _node("Add", ("product", "x"), "y"))
    graph += _text(2, "graph") + _bytes(11, _tensor_info("x", size)) + _bytes(12, _tensor_info("y", size))
    return _number(1, IR_VERSION) + _bytes(7, graph) + _bytes(8, _text(1, "") + _number(2, OPSET))
