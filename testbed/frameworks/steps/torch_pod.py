"""A training job for a pod: some memory, so many seconds, and at its end what it did."""

import argparse
import time

import torch
from torch import nn

GIB = 1 << 30


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--gib", type=int, default=0, help="memory that the job keeps besides its model")
    chosen = parser.parse_args()
    print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name(0)}", flush=True)
    kept = torch.empty(chosen.gib * GIB, dtype=torch.uint8, device="cuda")
    network = nn.Sequential(nn.Linear(2048, 8192), nn.ReLU(), nn.Linear(8192, 2048)).cuda()
    optimizer = torch.optim.AdamW(network.parameters())
    steps, until = 0, time.monotonic() + chosen.seconds
    while time.monotonic() < until:
        loss = network(torch.randn(512, 2048, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        steps += 1
    print(f"steps={steps} gib={(torch.cuda.memory_allocated()) / GIB:.0f} kept={kept.numel() // GIB}", flush=True)


if __name__ == "__main__":
    main()
