"""Access to the objects of a cluster: reads, watches and writes.

`port` is the interface that every implementation has, `errors` its exceptions, `resources` the collections.
`kubernetes` implements it on an API server; the API server and the simulator of Shoal implement it too. Code
above the port does not depend on which one it uses. `reflector` follows collections through it.
"""
