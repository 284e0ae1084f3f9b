"""The registry: the behaviour of a Kubernetes API server, without HTTP.

All objects are kept in memory as the JSON text that is returned to clients; a journal makes them durable.
`registry` implements the cluster port. A write is validated and staged by `write`, `subresources` or
`deletion` (which also collects garbage in the same transaction), kept in `pending` until the journal has it
(group commit), and then applied to `state`, which readers and `watch` see. `shoal.apiserver.strategies` has
the rules of each kind; `records` the stored form of an object and the journal's interface.
"""
