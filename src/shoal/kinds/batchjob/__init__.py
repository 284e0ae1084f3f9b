"""batch/v1 Jobs: pods that run to completion, a number of them in total and a number at the same time.

The controller works as that of Kubernetes, with three differences: a pod that was disrupted (evicted by the
scheduler, lost with its node, deleted by a user) has not failed, and is recreated; an index never has two
running pods, not even while its last pod is terminating; and names of pods are predictable.

Each pod is counted exactly once, whatever is deleted and whenever the controller is killed: a pod has a
finalizer, and cannot disappear before its end is recorded. First `status.uncountedTerminatedPods` gets its
uid (or `status.completedIndexes` its index), then the finalizer is removed, and once that is observed the uid
is replaced by an increment of the counter.
"""
