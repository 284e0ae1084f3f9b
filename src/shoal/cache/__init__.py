"""The cache: objects of a cluster, indexed, and kept in the form that the engine plans.

The World holds the objects as compact records; a SnapshotBuilder turns them into Snapshots, incrementally.
How a job of some kind becomes a workload is the business of its JobKind (`shoal.kinds`).
"""
