"""A trainer: asks the master for chunks, and sends their gradients to the parameter servers.

It may join at any time, and may be stopped at any time.
"""

import os
import time
from typing import Final

from model import FEATURES, gradient
from rpc import Client, Message, log

NAME: Final = f"trainer {os.environ['PADDLE_TRAINER_ID']}"
SERVERS: Final = [address.rpartition(":")[0] for address in os.environ["PADDLE_INIT_PSERVERS"].split(",")]


def train(servers: list[Client], chunk: int) -> float:
    """Train on a chunk; return the loss before."""
    count, weights = len(servers), [0.0] * FEATURES
    for i, server in enumerate(servers):
        weights[i::count] = server.ask()["weights"]
    change, loss = gradient(weights, chunk)
    time.sleep(0.1)  # a model that is worth a cluster takes longer than this one
    for i, server in enumerate(servers):
        server.ask(gradient=change[i::count])
    return loss


def main() -> None:
    """Train until the master has had enough passes."""
    master, servers = Client(NAME, os.environ["MASTER_ADDRESS"]), [Client(NAME, host) for host in SERVERS]
    result: Message = {}
    chunks = 0
    while (task := master.ask(**result))["do"] != "stop":
        result = {}
        if task["do"] == "wait":
            time.sleep(0.02)
            continue
        if not chunks:
            log(f"{NAME} joins in pass {task['pass']}")
        result = {"chunk": task["chunk"], "loss": train(servers, task["chunk"])}
        chunks += 1
    log(f"{NAME} has trained on {chunks} chunks; {task['passes']} passes are done")


if __name__ == "__main__":
    main()
