"""Data-parallel training as torchrun expects it; it knows nothing of Shoal.

Whenever the group changes, torchrun starts the processes again: they continue from the snapshot.
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Fit a plane, and write a snapshot after every step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--snapshot", type=Path, default=Path("snapshot.pt"))
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    first = load(arguments.snapshot, model, optimiser)
    print(f"rank {rank} of {world} begins at step {first}", flush=True)
    generator = torch.Generator().manual_seed(rank)
    for step in range(first, arguments.steps):
        inputs = torch.randn(32, 4, generator=generator)
        loss = ((model(inputs)[:, 0] - inputs.sum(1)) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if rank == 0:
            save(arguments.snapshot, step + 1, model, optimiser)
        time.sleep(0.1)
    print(f"rank {rank} of {world} is done", flush=True)
    dist.destroy_process_group()


def load(path: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> int:
    """Continue from a snapshot, if there is one; return the next step."""
    if not path.exists():
        return 0
    snapshot = torch.load(path, weights_only=True)
    model.load_state_dict(snapshot["model"])
    optimiser.load_state_dict(snapshot["optimiser"])
    return int(snapshot["step"])


def save(path: Path, step: int, model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Replace the snapshot atomically."""
    snapshot = {"step": step, "model": model.state_dict(), "optimiser": optimiser.state_dict()}
    torch.save(snapshot, path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


if __name__ == "__main__":
    main()
