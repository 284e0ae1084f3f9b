"""The CPU of one reconcile of a large job that has nothing to do: the cost of an event of one of its pods."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from measuring import ROUNDS, Row
from shoal.api.managed import ManagedPod
from shoal.engine.config import SchedulerConfig
from shoal.kinds.dijob.controller import reconcile
from tests.kinds.dijob.cases import DIJobCluster, make_job

_CONFIG = SchedulerConfig()


def idle_reconcile(ranks: int) -> Row:
    """Measure a reconcile of a DIJob that runs, beside decoding its pods."""
    cluster = DIJobCluster(make_job(minReplicas=ranks))
    cluster.run_all()
    view, texts = cluster.view(), [msgspec.json.encode(pod) for pod in cluster.pods.values()]
    decoder = msgspec.json.Decoder(ManagedPod)
    spent = _cpu(partial(reconcile, view, cluster.now, _CONFIG))
    floor = _cpu(lambda: [decoder.decode(text) for text in texts])
    return Row(f"{spent * 1e3:.2f} ms", f"{floor * 1e3:.2f} ms", f"{spent / floor:.2f}", "≤ 1 ms")


def _cpu(function: Callable[[], Any]) -> float:
    """Return the least CPU seconds of a call."""
    best = float("inf")
    for _ in range(4 * ROUNDS):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best
