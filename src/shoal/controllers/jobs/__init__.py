"""What the controllers of our own job kinds share.

`names` makes DNS labels and label values of job names; `ends` says how a pod ended, and when its successor
may be created; `tracking` counts each end once; `pods` builds pods, and the headless service of a job;
`frameworks` and `host_files` tell a pod its place in the job, and how training frameworks find each other;
`phases` writes phases and conditions, and cleans up finished jobs; `tokens` makes and checks the tokens by
which pods report to the server, and `server_access` gives them to pods. A controller adds which pods its jobs
want.
"""
