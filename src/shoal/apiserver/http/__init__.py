"""The HTTPS API of the embedded home: what kubectl and every other client of Kubernetes speaks to.

`server` listens, `app` lets requests in and sends each to the module that answers it. What an answer looks
like is decided by `negotiation`, `shapes` and the printers in `tables`.
"""
