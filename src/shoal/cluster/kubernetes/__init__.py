"""Client of a Kubernetes API server: the cluster port over HTTP.

`access` describes how to reach a server, and `connect` finds that out. `transport` is the only module that
knows the HTTP library, `kubeconfig` the only one that knows the Kubernetes library. `cluster` implements the
port, and `wire` decodes lists, events and statuses.
"""
