"""onnxruntime, numba-cuda, tinygrad, Triton: a little work by each."""

import os
import sys

from testbed.frameworks.steps.report import Facts, tell


def onnxruntime() -> Facts:
    """Run a graph of products and additions, built by hand: the onnx package is not needed."""
    import numpy as np
    import onnxruntime as ort

    from testbed.frameworks.steps.onnx_bytes import product_and_sum

    session = ort.InferenceSession(product_and_sum(256), providers=["CUDAExecutionProvider"])
    given = {"x": np.ones((256, 256), dtype=np.float32)}
    for _ in range(20):
        (out,) = session.run(None, given)
    return {"providers": session.get_providers()[0], "shape": list(out.shape)}


def numba() -> Facts:
    import numpy as np
    from numba import cuda

    @cuda.jit
    def add(left, right, out):  # type: ignore[no-untyped-def]
        index = cuda.grid(1)
        if index < out.size:
            out[index] = left[index] + right[index]

    host = np.arange(4096, dtype=np.float32)
    left, right = cuda.to_device(host), cuda.to_device(host)
    out = cuda.device_array_like(left)
    for _ in range(100):
        add[16, 256](left, right, out)
    cuda.synchronize()
    return {"same": bool((left.copy_to_host() == host).all()), "shape": list(out.shape)}


def tinygrad() -> Facts:
    os.environ["DEV"] = "CUDA"
    from tinygrad import Device, Tensor

    value = Tensor.ones(256, 256).contiguous().realize()
    for _ in range(10):
        value = (value @ value + 1).realize()
    Device[Device.DEFAULT].synchronize()
    return {"device": Device.DEFAULT, "shape": list(value.shape)}


def triton() -> Facts:
    """Run a kernel by Triton's own launcher, which speaks to the driver without a runtime."""
    import torch
    import triton as tr
    import triton.language as tl

    from testbed.frameworks.steps.triton_kernel import add

    left = torch.ones(1 << 16, device="cuda")
    out = torch.empty_like(left)
    for _ in range(100):
        add[(tr.cdiv(left.numel(), 1024),)](left, left, out, left.numel(), BLOCK=tl.constexpr(1024))
    torch.cuda.synchronize()
    return {"shape": list(out.shape)}


if __name__ == "__main__":
    tell(globals()[sys.argv[1]])
