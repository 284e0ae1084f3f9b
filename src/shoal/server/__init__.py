"""Servers beside the API: the DI server, to which the workers of jobs report, and the monitoring endpoints.

`serving` runs the DI server and `app` handles its requests: `job_ids` reads which job is meant, `callers` and
`access` say whether the caller may do that, `calls` does it with `jobs`, the jobs as watches report them, and
`replicas`, their addresses. `monitor` has the endpoints of a manager.
"""
