"""From objects to what the engine plans, and back.

The World holds the objects of one cluster as compact records. Each kind turns itself into a Workload here,
so the engine knows no kinds, and whoever talks to a cluster needs not know the engine.
"""
