"""Schemas: what objects of each kind are made of.

Those of Kubernetes' own kinds are kept in a short notation (`kubernetes.json`), those of ours are made from
their types. Patches ask them how lists are merged, the API which fields there are, and users read them.
"""
