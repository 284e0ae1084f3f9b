"""Controllers: each brings the cluster closer to the desired state of the objects of one kind.

A controller is a pure function, `reconcile(view, now) -> Changes`, and a declaration of which objects it
reconciles and which other objects it watches (`runtime.Controller`). The rest is common: `stores` hold what
reflectors report, `queue` decides which key is reconciled next, `applier` performs the changes, and
`expectations` keeps a key back until its own writes are visible.
"""
