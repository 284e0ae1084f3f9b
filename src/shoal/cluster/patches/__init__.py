"""Patches: the ways in which Kubernetes changes a part of an object.

`json_patch` has JSON patches and merge patches, `strategic` has strategic merge patches and the three-way
merge of `kubectl apply`. Each is a pure function from an object and a patch to the new object; neither
argument is modified.
"""
