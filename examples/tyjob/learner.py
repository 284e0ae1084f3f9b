"""The leader: learns from the episodes that the workers play, and sends them what it has learned.

Each worker has a connection. It sends an episode as one line of JSON, and gets the present table as the
answer. The table is saved now and then: a learner that is started again goes on from there.
"""

import json
import os
import socketserver
import sys
import threading
from pathlib import Path
from typing import Final

import cliff

PORT: Final = 5599
RATE: Final = 0.2
EPISODES: Final = int(os.environ.get("EPISODES", "2000"))
WORKERS: Final = int(os.environ["TYJOB_WORKERS"])
FAIL_AT: Final = int(os.environ.get("FAIL_AT", "0"))
"""The episode in which the first attempt fails, to show what happens then; 0 for none."""
CHECKPOINT: Final = Path(os.environ.get("CHECKPOINT", "table.json"))


class Learner:
    """What has been learned so far; workers are served by several threads."""

    def __init__(self) -> None:
        self.table, self.episodes, self.workers = cliff.new_table(), 0, set[str]()
        self.resumed = CHECKPOINT.exists()
        if self.resumed:
            self.episodes, self.table = json.loads(CHECKPOINT.read_text())
        self._lock, self.done = threading.Lock(), threading.Event()

    def learn(self, worker: str, episode: list[cliff.Step]) -> str:
        """Learn from an episode; return the table as JSON."""
        with self._lock:
            if worker not in self.workers:
                self.workers.add(worker)
                log(f"worker {worker} has joined: {len(self.workers)} in all")
            for state, action, reward, after in reversed(episode):
                future = 0.0 if after == cliff.GOAL else max(self.table[after])
                self.table[state][action] += RATE * (reward + future - self.table[state][action])
            self.episodes += 1
            self._report()
            return json.dumps(self.table)

    def _report(self) -> None:
        if self.episodes % 250 == 0:
            self.save()
            log(f"episode {self.episodes}: the best way earns {cliff.evaluate(self.table):g}")
        if self.episodes == FAIL_AT and not self.resumed:
            log("the learner fails on purpose")
            os._exit(1)
        if self.episodes >= EPISODES and len(self.workers) == WORKERS:
            self.done.set()

    def save(self) -> None:
        """Write the table, so that a reader sees the old one or the new one."""
        new = CHECKPOINT.with_suffix(".new")
        new.write_text(json.dumps([self.episodes, self.table]))
        new.replace(CHECKPOINT)


class Connection(socketserver.StreamRequestHandler):
    """A worker."""

    def handle(self) -> None:
        """Answer each episode with the table."""
        learner: Learner = self.server.learner  # type: ignore[attr-defined]
        for line in self.rfile:
            message = json.loads(line)
            answer = learner.learn(message["worker"], message["episode"])
            self.wfile.write(answer.encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    """Listens at the leader's address: every pod has an address of its own."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, learner: Learner) -> None:
        super().__init__((os.environ["LEADER_ADDRESS"], PORT), Connection)
        self.learner = learner


def log(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201 - the log of the pod


def main() -> None:
    """Learn until there were enough episodes, and every worker has taken part."""
    learner = Learner()
    log(f"learning {'again ' if learner.resumed else ''}from episode {learner.episodes}")
    with Server(learner) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        learner.done.wait()
    learner.save()
    earned = cliff.evaluate(learner.table)
    log(
        f"{learner.episodes} episodes of {len(learner.workers)} workers: {earned:g}, and {cliff.BEST} is best"
    )
    sys.exit(earned != cliff.BEST)


if __name__ == "__main__":
    main()
