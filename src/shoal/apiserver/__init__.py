"""The embedded API server: storage, per-kind strategies, HTTP."""
