"""Leader election: of several managers of a cluster, one schedules and the others stand by.

A Lease object (`coordination.k8s.io`) names the leader. `lease` decides when the Lease may be written, a pure
function of what was observed. `elector` makes the requests. `leadership` is what the rest of the manager
sees: until when it leads, by its own clock. `fence` refuses writes after that. `thread` runs the elector in a
thread of its own, so that a long cycle of the scheduler does not delay the renewal.

Why two managers never lead at the same time, by their own clocks:

1. A leader leads until `renew_deadline` after it *sent* its last successful renewal.
2. Another manager may take the Lease `duration` after it *received* that renewal, or later.
3. The renewal was sent before it was received, and `renew_deadline < duration`.

Only durations are compared, each measured by one machine with a clock that never jumps. So the clocks of
machines may differ by any amount, and one may run faster than another by the factor
`duration / renew_deadline`.

What remains: a write that was sent in time and is delayed by the network for more than
`duration - renew_deadline`. Most writes name what they change and are refused then; docs/high-availability.md
lists the others.
"""
