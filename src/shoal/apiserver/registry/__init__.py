"""The registry: an API server's behaviour without a network.

All objects are in memory, as the texts that are handed out; a journal keeps what must outlive the process.
`home` is the port; a write goes through `writing`, `deleting` or `placing` (what is allowed), `garbage` (what
follows from it), `head` (what is decided but not yet safe) and `committer` (many writes, one commit) into
`state` (what readers and watchers see). `rules` says what is special about each kind.
"""
