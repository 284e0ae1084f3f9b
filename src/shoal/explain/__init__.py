"""Explaining a plan: why a job got no node, and which changes would let it run.

Every proposed change is verified: the changed world was planned by the same cycle, and the job ran.
"""
