"""Shoal schedules and runs elastic, gang-shaped training jobs on a shared cluster.

A *shoal* is a group that swims together: it starts whole, grows and shrinks, and shares its pool with
others. The packages, from the bottom up: ``api`` holds the kinds that users write, ``scheduling`` the pure
engine, ``world`` what turns objects into the engine's view, ``cli`` the commands.
"""

__version__ = "0.1.0"
