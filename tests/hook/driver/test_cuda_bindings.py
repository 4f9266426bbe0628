"""NVIDIA's Python bindings as a client: they find every function by cuGetProcAddress, and all passes the hook."""

import sys

import pytest

from tests.fakes.wire.daemon import Peer
from tests.hook.support.machine import Machine
from tests.hook.support.serving import MIB, serving

PROGRAM = """
from cuda.bindings import driver as d
def ok(answer):
    assert answer[0] == 0, answer
    return answer[1] if len(answer) == 2 else answer[1:]
ok(d.cuInit(0)); device = ok(d.cuDeviceGet(0))
ok(d.cuCtxSetCurrent(ok(d.cuDevicePrimaryCtxRetain(device))))
function = ok(d.cuModuleGetFunction(ok(d.cuModuleLoadData(b"SGPU")), b"step_100us"))
stream = ok(d.cuStreamCreate(0))
for _ in range(50):
    ok(d.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, 0, 0))
pointer = ok(d.cuMemAlloc(100 << 20)); ok(d.cuMemsetD8Async(pointer, 1, 4096, stream))
ok(d.cuStreamSynchronize(stream))
print(*ok(d.cuMemGetInfo()), ok(d.cuDeviceTotalMem(device)), int(d.cuMemAlloc(200 << 20)[0]))
ok(d.cuMemFree(pointer)); ok(d.cuStreamDestroy(stream))
"""


def test_cuda_bindings_pass_the_hook(machine: Machine, peer: Peer) -> None:
    pytest.importorskip("cuda.bindings")
    with serving(peer, memory=256 * MIB):
        ended = machine.run(sys.executable, "-c", PROGRAM, NVSHARE_LOG="summary")

    assert [int(word) for word in ended.well().split()] == [156 * MIB, 256 * MIB, 256 * MIB, 2]
    assert "turns=1 " in ended.said
    assert f"peak_bytes={100 * MIB}" in ended.said
