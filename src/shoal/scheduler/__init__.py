"""The scheduler: the loop that plans a live cluster, and the commit that carries plans out.

    LiveWorld ──► loop: build a snapshot, run a cycle ──► decisions: the writes of a Plan ──► commit

`loop` decides when a cycle runs. `decisions` is pure: a Plan goes in, data comes out. `commit` and `writes`
are the impure shell; `status_reporter` is its slow path, for what people read. `followups` continues
evictions, `policy_client` asks a user's policy, `metrics`, `recording` and `settings` report.

All state is in the objects, so that the process may be killed between any two writes. The order of writes
makes that harmless:

1. *Room is reserved before it is freed.* No pod is deleted in favour of a workload before the nomination of
   that workload is written (`status.nominatedNodeName` of a pod, `status.nominations` of a job): after a
   restart the room is still reserved. For pods that do not exist yet, and whose nomination no object could
   hold, no pod is deleted.
2. *Room is reserved before the first of several pods is bound.* All pods of a gang are nominated, then bound
   one by one: after a crash the next cycle binds the rest in the reserved room. A job with allocations gets
   them in one patch.
3. *An allocation is dropped before its pod is deleted*, together with the record of the change of size.
   Otherwise a pod could be recreated in the room that it left.
4. *An eviction is recorded before the deletion*: the record and the DisruptionTarget condition are one write.
   If a whole workload is evicted, the record of its first pod says so before the others are evicted: after a
   crash the eviction continues, and no half of a gang is left.
5. *One decision at a time for a workload.* While its writes are in progress, a new decision waits for the
   next cycle. So no two writes can overtake each other, and no cycle waits for a write.
"""
