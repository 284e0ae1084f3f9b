"""Patches: the three ways in which Kubernetes lets a part of an object be changed.

Each is a pure function from the object as it is and a patch to the object as it shall be; neither is touched.
"""
