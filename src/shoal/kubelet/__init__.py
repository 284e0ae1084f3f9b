"""The agent: the kubelet of the embedded home.

It registers nodes of this machine and runs their pods as processes.

`agent` follows pods and nodes. `pod_worker` manages one pod, and `containers` its processes. `lifecycle`
decides what happens to a pod, and `pod_status` builds its status: both are pure. `container_spec` turns a
container into a process, with its environment and `volumes`, and the objects they refer to (`references`).
`name_service` gives host names addresses and writes hosts files. `nodes` are the nodes of this machine,
`devices` assigns their GPUs, `node_reporter` registers them and sends heartbeats. `admission` rejects pods
that cannot run here.

`runtime` runs containers as processes, `shim` is the program beside each container. This file must not import
anything: the shim imports it at every start.
"""
