"""PyTorch's compiler, loaders with worker processes, two devices in one process, and a notebook that idles."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from testbed.frameworks.steps.report import Facts, tell

IDLE_SECONDS = 1.5


def _compiled(mode: str) -> Facts:
    network = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256)).cuda()
    fast = torch.compile(network, mode=mode)
    for _ in range(20):
        torch.compiler.cudagraph_mark_step_begin()
        network.zero_grad()  # a gradient of the last run would lie in the graph's own memory
        out = fast(torch.zeros(64, 256, device="cuda"))
        out.sum().backward()
    torch.cuda.synchronize()
    return {"shape": list(out.shape)}


def compiled() -> Facts:
    return _compiled("default")


def reduce_overhead() -> Facts:
    return _compiled("reduce-overhead")


class Numbers(Dataset):
    """Rows that tell their own index."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((16,), float(index))


def _load(context: str) -> Facts:
    """Load with worker processes; the parent has a context before they start, as in every training script."""
    loader = DataLoader(Numbers(), batch_size=8, num_workers=2, pin_memory=True, multiprocessing_context=context)
    total = 0.0
    for batch in loader:
        total += batch.cuda(non_blocking=True).cpu().sum().item()
    return {"sum": total}


def loader_fork() -> Facts:
    return _load("fork")


def loader_spawn() -> Facts:
    return _load("spawn")


def peer_copy() -> Facts:
    first = torch.arange(1 << 20, dtype=torch.float32).to("cuda:0")
    second = first.to("cuda:1")
    back = second.to("cuda:0").cpu()
    return {
        "peer": torch.cuda.can_device_access_peer(0, 1),
        "device": str(second.device),
        "same": bool((back == torch.arange(1 << 20)).all()),
    }


def data_parallel() -> Facts:
    network = nn.DataParallel(nn.Linear(512, 512).cuda(), device_ids=[0, 1])
    for _ in range(5):
        out = network(torch.zeros(64, 512, device="cuda"))
        out.sum().backward()
    torch.cuda.synchronize()
    return {"shape": list(out.shape)}


def notebook() -> Facts:
    """Run a cell, a pause, a cell: the pause must not cost the next cell more than a turn."""
    value = torch.rand(1024, 1024, device="cuda")
    for _ in range(3):
        for _ in range(10):
            value = value @ value
        torch.cuda.synchronize()
        time.sleep(IDLE_SECONDS)
    return {"cells": 3, "allocated": torch.cuda.memory_allocated() > 0}


if __name__ == "__main__":
    tell(globals()[sys.argv[1]], prepare=lambda: torch.zeros(1, device="cuda"))
