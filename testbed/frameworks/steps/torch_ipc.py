"""CUDA tensors between processes: a queue of torch.multiprocessing, and a tensor-parallel loop over shared buffers."""

import sys
import time
from multiprocessing.reduction import ForkingPickler

import torch
import torch.multiprocessing as mp

from testbed.frameworks.steps.report import Facts, tell

ROUNDS = 20


def _consume(given: "mp.Queue[torch.Tensor]", answers: "mp.Queue[float]") -> None:
    """Add up what comes: the bytes are the sender's."""
    for _ in range(3):
        tensor = given.get()
        answers.put(tensor.cpu().sum().item())
        del tensor


def queue() -> Facts:
    ForkingPickler.dumps(torch.ones(1000, device="cuda"))  # a queue's own thread would swallow the exception
    context = mp.get_context("spawn")
    given, answers = context.Queue(), context.Queue()
    consumer = context.Process(target=_consume, args=(given, answers), daemon=True)
    consumer.start()
    sent = [torch.full((1000,), float(number)).cuda() for number in (1, 2, 3)]
    for tensor in sent:
        given.put(tensor)
    sums = [answers.get(timeout=40) for _ in sent]
    consumer.join(20)
    return {"sums": sums, "code": consumer.exitcode}


def _shard(rank: int, buffers: list[torch.Tensor], barrier: "mp.Barrier", answers: "mp.Queue[object]") -> None:
    """Add the other rank's part from its own memory after a product, as a custom all-reduce does."""
    torch.cuda.set_device(rank)
    weights = torch.zeros(1024, 1024, device="cuda")
    own, other = buffers[rank], buffers[1 - rank]
    barrier.wait()
    began = time.perf_counter()
    for number in range(ROUNDS):
        torch.matmul(weights, weights)
        own.copy_(torch.full((1024,), float(rank + number)))
        torch.cuda.synchronize()
        barrier.wait()
        total = own.cpu() + other.to(f"cuda:{rank}").cpu()
        barrier.wait()
    answers.put((time.perf_counter() - began, total[0].item()))
    barrier.wait()


def tensor_parallel() -> Facts:
    context = mp.get_context("spawn")
    barrier, answers = context.Barrier(2), context.Queue()
    buffers = [torch.zeros(1024, device=f"cuda:{rank}") for rank in range(2)]
    ranks = [context.Process(target=_shard, args=(rank, buffers, barrier, answers), daemon=True) for rank in range(2)]
    for rank in ranks:
        rank.start()
    told = [answers.get(timeout=40) for _ in ranks]
    for rank in ranks:
        rank.join(20)
    return {"sums": [total for _, total in told], "seconds": max(seconds for seconds, _ in told)}


if __name__ == "__main__":
    tell(globals()[sys.argv[1]], prepare=lambda: torch.zeros(1, device="cuda"))
