"""PyTorch with several streams and threads, and CUDA graphs."""

import sys
import threading

import torch

from testbed.frameworks.steps.report import Facts, tell


def two_streams() -> Facts:
    """Copy a batch in one stream beside the products of the batch before in another, as a prefetcher does."""
    host = torch.zeros(64 << 20, dtype=torch.uint8).pin_memory()
    target = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    left = torch.rand(2048, 2048, device="cuda")
    copies, products = torch.cuda.Stream(), torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(copies):
            for _ in range(4):
                target.copy_(host, non_blocking=True)
        with torch.cuda.stream(products):
            for _ in range(12):
                left = left @ left
        torch.cuda.synchronize()
    return {"rounds": 20}


def long_copies() -> Facts:
    """Copy 256 MB, 21 ms each time, beside short products in another stream; wait once at the end of all."""
    host = torch.zeros(256 << 20, dtype=torch.uint8).pin_memory()
    target = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    left = torch.rand(2048, 2048, device="cuda")
    copies, products = torch.cuda.Stream(), torch.cuda.Stream()

    def copy() -> None:
        with torch.cuda.stream(copies):
            for _ in range(30):
                target.copy_(host, non_blocking=True)
            copies.synchronize()

    other = threading.Thread(target=copy)
    other.start()
    with torch.cuda.stream(products):
        for _ in range(300):
            torch.mm(left, left)
        products.synchronize()
    other.join()
    return {"copies": 30}


def threads() -> Facts:
    """Run four threads with a stream each; all wait at the end."""
    ended: list[int] = []

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            value = torch.rand(1024, 1024, device="cuda")
            for _ in range(100):
                value = value @ value + 1
            torch.cuda.current_stream().synchronize()
            ended.append(number)

    running = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return {"ended": sorted(ended)}


def graphs() -> Facts:
    static = torch.zeros(1024, 1024, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            warm = static @ static
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = (static @ static).relu() + warm
    for _ in range(100):
        static.copy_(torch.ones(1024, 1024))
        graph.replay()
    torch.cuda.synchronize()
    return {"shape": list(result.shape)}


if __name__ == "__main__":
    tell(globals()[sys.argv[1]], prepare=lambda: torch.zeros(1, device="cuda"))
