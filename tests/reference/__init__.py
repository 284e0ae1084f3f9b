"""The slow and obvious scheduler: a second reading of the specification, against which the engine is tested.

One pod at a time, plain Python, exact fractions, the world copied for every what-if. It shares no code with
the engine and was written without looking at it. It plans one cycle, without what the engine does on top of
queueing and placing: borrowing, making room, and growth of elastic jobs.
"""

from tests.reference.cycle import plan, workloads

__all__ = ["plan", "workloads"]
