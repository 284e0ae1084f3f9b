"""The scheduling engine: `cycle` takes a Snapshot and returns a Plan.

The engine does no I/O, reads no clock and uses no random numbers: the same Snapshot and configuration give
the same Plan, to the byte. It knows no kinds of Kubernetes objects; `shoal.cache` translates objects into the
Workloads that it plans.
"""
