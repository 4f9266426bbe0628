"""PyTorch with two ranks, a process each: DDP over gloo and NCCL, overlapped all-reduce, messages both ways."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from testbed.frameworks.steps.report import Facts, tell

RANKS = 2


def ranks(work: str, backend: str) -> Facts:
    """Run a function of this module in two processes, and merge what they say."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_rank, args=(work, backend, folder), nprocs=RANKS)
        told = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(RANKS)]
    seconds = max(each.pop("seconds") for each in told)
    return {"ranks": RANKS, "same": told[0] == told[1], "seconds": seconds, **told[0]}


def _rank(rank: int, work: str, backend: str, folder: str) -> None:
    torch.cuda.set_device(rank)
    dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    dist.barrier()
    began = time.perf_counter()
    facts = globals()[f"_{work}"](rank)
    torch.cuda.synchronize()
    facts["seconds"] = time.perf_counter() - began
    dist.destroy_process_group()
    (Path(folder) / f"{rank}.json").write_text(json.dumps(facts))


def _train(rank: int) -> Facts:
    """Run a DDP loop: at its start it checks that the ranks' models have the same shapes, so data must flow."""
    network = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).cuda()
    parallel = nn.parallel.DistributedDataParallel(network, device_ids=[rank])
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)
    for _ in range(20):
        parallel(torch.randn(64, 512, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return {"steps": 20}


def _overlapped(rank: int) -> Facts:
    """Run all-reduces of 256 MB in NCCL's own stream while products run in another."""
    gradients = torch.zeros(64 << 20, device="cuda")
    left = torch.rand(2048, 2048, device="cuda")
    for _ in range(5):
        work = dist.all_reduce(gradients, async_op=True)
        for _ in range(12):
            left = left @ left
        work.wait()
        torch.cuda.synchronize()
    small = torch.tensor([rank + 1.0] * 4).cuda()  # copied: a kernel would fill nothing
    dist.all_reduce(small)
    return {"sum": small.tolist()}


def _messages(rank: int) -> Facts:
    """Send and receive at once in both ranks, as a pipeline does."""
    sent, got = torch.tensor([rank + 1.0] * 16).cuda(), torch.zeros(16, device="cuda")
    for _ in range(20):
        both = [dist.P2POp(dist.isend, sent, 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)]
        for work in dist.batch_isend_irecv(both):
            work.wait()
    torch.cuda.synchronize()
    return {"both": sorted([sent[0].item(), got[0].item()])}


def gloo() -> Facts:
    return ranks("train", "gloo")


def nccl() -> Facts:
    return ranks("train", "nccl")


def overlapped() -> Facts:
    return ranks("overlapped", "nccl")


def messages() -> Facts:
    return ranks("messages", "nccl")


if __name__ == "__main__":
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    tell(globals()[sys.argv[1]])
