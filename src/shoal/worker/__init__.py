"""What a training process imports: its place in the job, its peers, reports, resizes, and a stop in time.

    from shoal import worker

    me = worker.current()
    me.on_stop(lambda deadline: save_checkpoint())   # SIGTERM: until the deadline
    me.on_resize(lambda peers: rebalance(peers))
    if me.index > 0:
        me.wait_for_peers(port=5000, count=1)        # index 0 listens
    for step in range(steps):
        ...
        me.report(progress=100 * step / steps, throughput=samples_per_second, loss=loss)
    if is_bored:
        me.scale(+1)

It uses the standard library only: none of Shoal's dependencies have to be in a training image. All that it
reads is in the environment of a pod (docs/environment.md); outside a job it describes a group of one, and
reports nothing. docs/worker.md has examples.
"""

import functools
import os

from shoal.worker.place import Place
from shoal.worker.server import ServerError
from shoal.worker.stopping import Deadline
from shoal.worker.worker import Worker

__all__ = ["Deadline", "Place", "ServerError", "Worker", "current"]


@functools.cache
def current() -> Worker:
    """Return the worker that this process is."""
    return Worker(os.environ)
