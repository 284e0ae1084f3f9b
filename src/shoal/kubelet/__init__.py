"""The agent: the kubelet of the embedded home. Nodes of this machine, and their pods as processes.

`agent` hears of pods and nodes; `pod` looks after one pod, and `containers` after its processes. What is to
become of a pod is judged in `life`, and written as `statuses` say: both are pure. `building` makes a process
of a container, out of its `environment`, `volumes` and what they refer to (`references`, `downward`).
`directory` gives host names their `addresses` and writes `hosts` files. `machines` are the nodes, `reporting`
speaks for them. `refusals` says at submission what cannot be run here.
"""
