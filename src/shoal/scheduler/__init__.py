"""The scheduler: the loop that plans a live cluster, and the commit that makes plans come true.

    LiveWorld ──► loop: assemble, cycle ──► decisions: what a Plan asks of objects ──► commit: writes them

`loop` says when a cycle runs. `decisions` and `jobs` are pure: a Plan in, data out. `commit` and `writes`
are the impure shell; `telling` is its slow lane, for what people read. `followups`, `timers`, `advisor`,
`metrics` and `recording` each do one thing beside.

All state is in the objects, so that the process may be killed between any two writes. What makes that
harmless is the order of writes, and it is this:

1. *Room is written down before it is freed.* Nobody is deleted for a workload before that workload's
   nomination is in its object (`status.nominatedNodeName` of a pod, `status.nominations` of a job). After a
   restart the room is still kept for it. For pods that nobody has made yet, and whose nomination could be
   written nowhere, nobody is deleted.
2. *Room is written down before the first of several is bound.* The pods of a gang are nominated, all of
   them, and then bound one by one: should it end there, the next cycle binds the rest in the room that is
   kept. A job with allocations gets them in one patch.
3. *A job gives a place up before its pod is deleted*: its allocation, and its record of the change of size,
   are written first. Otherwise a pod could be made again in the room that it left.
4. *A victim says why it goes before it goes*: the DisruptionTarget condition comes before the deletion. If
   all of its workload must go with it, the first one says so before the others are told: whoever comes next
   reads it there, and no half of a gang is left over.
5. *One write at a time for a workload.* While one is under way, what a plan wants of that workload waits
   for the next cycle. So no two writes can overtake each other, and no cycle waits for a write.
"""
