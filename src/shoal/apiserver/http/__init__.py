"""The HTTPS API of the embedded cluster, for kubectl and every other Kubernetes client.

`server` listens; `app` authenticates and dispatches requests to the handlers in `discovery`, `read`, `write`
and `kubelet` (logs, exec, metrics). `requests` parses paths and queries, `bodies` request bodies. `responses`
encodes objects as clients want them: whole, as metadata only, or as tables (`tables`, `printers`).
"""
