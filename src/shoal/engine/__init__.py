"""The engine: a Snapshot goes in, a Plan comes out.

Nothing here does I/O, reads a clock or rolls dice: the same Snapshot gives the same Plan, to the byte.
The engine knows no kinds of objects; `shoal.world` turns objects into the Workloads it plans.
"""
