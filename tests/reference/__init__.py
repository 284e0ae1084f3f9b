"""The slow and obvious scheduler: a second reading of the specification, against which the engine is tested.

One pod at a time, plain Python, exact fractions, the world copied for every what-if. It shares no code with
the engine and was written without looking at it. It plans one cycle, without what the engine does on top of
queueing, placing, making room and borrowing: growth and shrinking of elastic jobs, and rebalancing.
"""

from tests.reference.cycle import fits_without, plan, workloads

__all__ = ["fits_without", "plan", "workloads"]
