"""The embedded home: a complete cluster in one process, with its objects in one SQLite file.

`serve` puts it together for `shoal up`, `store` opens its objects, and `daemon` is what other commands need
to find and stop it.
"""
