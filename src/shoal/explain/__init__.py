"""Explaining a plan: why a job got no node, and which changes would let it run.

What is proposed is planned before it is said: a changed world goes through the same cycle.
"""
