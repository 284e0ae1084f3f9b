"""The slow and obvious scheduler: a second reading of the specification, against which the engine is tested.

One pod at a time, plain Python, exact fractions, the world copied for every what-if. It shares no code with
the engine and was written without looking at it. Elastic jobs are sized by fulfilment; other elastic policies
and messages are not in it.
"""

from tests.reference.run import fits_without, plan, workloads

__all__ = ["fits_without", "plan", "workloads"]
