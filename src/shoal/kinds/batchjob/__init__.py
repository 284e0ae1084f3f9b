"""batch/v1 Jobs: pods that run to their end, so many of them, so many at once.

As the controller of Kubernetes does it, with three differences: a pod that was taken away (by the scheduler,
with a lost node, by somebody's hand) has not failed, and is made again; an index is never run twice at once,
not even while its last pod is on its way out; and names of pods are foreseeable.

How pods are counted, each once, whatever is deleted and whoever is killed: a pod has a finalizer, and cannot
vanish before its end is written down. First `status.uncountedTerminatedPods` gets its uid (or
`status.completedIndexes` its index), then the finalizer is taken away, and when that is seen to be done the
uid becomes part of the count.
"""
