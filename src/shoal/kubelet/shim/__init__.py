"""The shim: the small program between the daemon and one container.

It starts the container's process, keeps its log, ends it when told to, and writes down how it ended; so a
container outlives the daemon, and nothing of it is lost meanwhile. There is one for every container that
runs, and a run may be over in a moment: so it imports what is built into Python, and little else (`json`,
`signal` with its enums, `typing` and `contextlib` would each take longer than the interpreter itself).

`start` is the program and `supervision` what it does; `mounts` and `container` are the way from a fork to the
user's command; `logfile` writes the log, `account` everything else; `execute` starts another command in a
container that runs. `process`, `cgroup` and `files` are used by the daemon too.
"""
