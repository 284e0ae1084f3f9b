"""The reference scheduler: a slow, simple implementation of the specification to test the engine against.

It places one pod at a time, in plain Python with exact fractions, and copies the world for every what-if. It
shares no code with the engine and was written without looking at it. Elastic jobs are sized by fulfilment; it
has no other elastic policies, and reasons without messages.
"""

from tests.reference.run import fits_without, plan, workloads

__all__ = ["fits_without", "plan", "workloads"]
