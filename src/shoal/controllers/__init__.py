"""Controllers: each brings the cluster nearer to what the objects of one kind ask for.

A controller is a pure function, `reconcile(view, now) -> Changes`, and a few lines that say which objects it
is in charge of and which others wake it (`runtime.Controller`). The rest is common: `stores` keep what
reflectors hear, the `queue` says whose turn it is, `apply` performs the changes.
"""
