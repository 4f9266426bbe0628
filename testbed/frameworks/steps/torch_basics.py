"""PyTorch's first minute: devices, copies, elementwise work, sort, topk, unique, products, a training loop."""

import sys

import torch
from torch import nn

from testbed.frameworks.steps.report import Facts, tell


def init() -> Facts:
    properties = torch.cuda.get_device_properties(0)
    first = torch.zeros(1, device="cuda")
    return {
        "available": torch.cuda.is_available(),
        "devices": torch.cuda.device_count(),
        "name": properties.name,
        "capability": torch.cuda.get_device_capability(0),
        "device": str(first.device),
    }


def copies() -> Facts:
    """Compare what comes back with what went out: copies move data on the software GPU, too."""
    host = torch.arange(1 << 20, dtype=torch.float32)
    device = host.cuda()
    again = device.clone().cpu()
    pinned = host.pin_memory().to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    return {"same": bool((again == host).all()), "pinned": bool((pinned.cpu() == host).all()), "sum": host.sum().item()}


def elementwise() -> Facts:
    value = torch.rand(4096, 1024, device="cuda")
    for _ in range(50):
        value = (value * 2 + 1).relu().sigmoid()
    torch.cuda.synchronize()
    return {"shape": list(value.shape), "allocated": torch.cuda.memory_allocated()}


def selection() -> Facts:
    """Call what CUB does: it asks the driver about its kernels.  The results are zeros; kernels compute nothing."""
    value = torch.rand(100_000, device="cuda")
    ordered, _ = value.sort()
    top, _ = value.topk(10)
    flat = torch.ones(1000, device="cuda", dtype=torch.int64).cumsum(0)
    unique = torch.unique(torch.zeros(100, device="cuda"))
    torch.cuda.synchronize()
    return {"sorted": list(ordered.shape), "top": list(top.shape), "sum": list(flat.shape), "unique": unique.dim()}


def products() -> Facts:
    left = torch.rand(2048, 2048, device="cuda")
    for _ in range(20):
        left = left @ left
    half = torch.rand(8, 512, 512, device="cuda", dtype=torch.float16)
    batched = torch.bmm(half, half)
    torch.cuda.synchronize()
    return {"shape": list(left.shape), "batched": list(batched.shape)}


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)).cuda()


def train(steps: int = 100) -> Facts:
    """Run a training loop with Adam, and ask for the loss each tenth step, as loops do."""
    network = model()
    optimizer = torch.optim.Adam(network.parameters())
    losses = 0
    for step in range(steps):
        batch = torch.randn(128, 512, device="cuda")
        loss = nn.functional.cross_entropy(network(batch), torch.zeros(128, dtype=torch.int64, device="cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            losses += loss.item() == loss.item()
    torch.cuda.synchronize()
    return {"losses": losses, "allocated": torch.cuda.memory_allocated()}


def mixed_precision() -> Facts:
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(30):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = network(torch.randn(128, 512, device="cuda")).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.cuda.synchronize()
    return {"dtype": str(loss.dtype)}


def convolution() -> Facts:
    network = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3)).cuda()
    for _ in range(10):
        out = network(torch.randn(8, 3, 64, 64, device="cuda"))
        out.sum().backward()
    torch.cuda.synchronize()
    return {"shape": list(out.shape)}


def attention() -> Facts:
    shape = (4, 8, 256, 64)
    query, key, value = (torch.randn(shape, device="cuda", dtype=torch.float16, requires_grad=True) for _ in range(3))
    for _ in range(10):
        out = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out.sum().backward()
    torch.cuda.synchronize()
    return {"shape": list(out.shape), "dtype": str(out.dtype)}


def lengths() -> Facts:
    """Run a batch of another length each step, as text has: most grids are new each time."""
    layer = nn.TransformerEncoderLayer(256, 4, 512, batch_first=True, dropout=0.0).cuda()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
    for step in range(100):
        length = 16 + (step * 37) % 241
        layer(torch.randn(4, length, 256, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    return {"steps": 100}


if __name__ == "__main__":
    tell(globals()[sys.argv[1]], prepare=lambda: torch.zeros(1, device="cuda"))
