"""The embedded API server: registry (objects and storage), strategies (rules per kind) and HTTP."""
