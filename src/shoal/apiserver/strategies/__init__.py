"""Strategies: defaults, validation and admission per kind, like the REST strategies of Kubernetes."""
