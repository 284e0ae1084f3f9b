"""Tables: what `kubectl get` shows of each kind, one module a kind, or for some that are alike."""

from shoal.apiserver.tables.registry import printer_of

__all__ = ["printer_of"]
