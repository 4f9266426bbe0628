"""PyTorch's allocators: out of memory that is caught, snapshots, pools, and what is seen under a cap."""

import sys

import torch

from testbed.frameworks.steps.report import Facts, raised, tell

GIB = 1 << 30


def out_of_memory() -> Facts:
    """Fill the card until the framework says no, catch it, give everything back, and go on."""
    kept: list[torch.Tensor] = []
    error = ""
    for _ in range(1000):
        try:
            kept.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
        except torch.cuda.OutOfMemoryError as caught:
            error = type(caught).__name__
            break
    allocated = len(kept)
    kept.clear()
    torch.cuda.empty_cache()
    after = torch.ones(1000, device="cuda").cpu()
    card = torch.cuda.get_device_properties(0).total_memory / GIB
    return {
        "error": error,
        "below_the_card": allocated <= card,
        "most_of_it": allocated >= 0.7 * card,
        "after": list(after.shape),
    }


def snapshot() -> Facts:
    torch.cuda.memory._record_memory_history()
    value = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
    found = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    return {"segments": len(found["segments"]) > 0, "bytes": value.numel()}


def pool() -> Facts:
    own = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(own):
        value = torch.empty(10 << 20, dtype=torch.uint8, device="cuda")
    other = torch.empty(10 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    return {"distinct": value.data_ptr() != other.data_ptr()}


def grow_and_shrink() -> Facts:
    """Run the same under each allocator: PYTORCH_ALLOC_CONF comes from the step's table."""
    for size in (1, 64, 256, 1024, 256, 2048):
        value = torch.empty(size << 20, dtype=torch.uint8, device="cuda")
        value.zero_()
        del value
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return {"reserved": torch.cuda.memory_reserved(), "backend": torch.cuda.memory.get_allocator_backend()}


def under_a_cap() -> Facts:
    """Show what a program can see of its cap, and whether it keeps it."""
    free, total = torch.cuda.mem_get_info()
    kept = [torch.empty(GIB, dtype=torch.uint8, device="cuda") for _ in range(4)]
    less, _ = torch.cuda.mem_get_info()
    return {
        "total": total,
        "properties": torch.cuda.get_device_properties(0).total_memory,
        "free_at_most_total": free <= total,
        "free_falls": less < free,
        "beyond": raised(lambda: torch.empty(8 * GIB, dtype=torch.uint8, device="cuda")),
        "kept": len(kept),
    }


if __name__ == "__main__":
    tell(globals()[sys.argv[1]], prepare=lambda: torch.zeros(1, device="cuda"))
