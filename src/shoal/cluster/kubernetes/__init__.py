"""The home in which objects live in a Kubernetes API server.

`access` says what it takes to reach one, and `connect` finds it out; `transport` speaks HTTP, and nobody else
does; `home` is the port in the words of Kubernetes. `kubeconfig` alone knows the library that reads one.
"""
