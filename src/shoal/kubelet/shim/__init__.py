"""The shim: a small program between the daemon and one container.

It starts the container's process, writes its log, stops it on request, and records how it ended. Because of
it a container outlives the daemon, and no output and no exit code is lost meanwhile. One shim runs per
running container, and a container may last only milliseconds: so the shim imports modules that are built into
Python and little else (`json`, `signal` with its enums, `typing` and `contextlib` would each take longer than
starting the interpreter).

`start` is the entry point and `supervision` the main loop. `mounts` and `command` lead from a fork to the
user's command, also for `exec`. `logfile` writes the log, `records` the other files of a run. `process` reads
/proc and cgroups, `system` wraps system calls and signals. The daemon uses `records` and `process` too.
"""
