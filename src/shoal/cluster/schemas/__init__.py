"""OpenAPI schemas of all kinds.

Those of Kubernetes' built-in kinds are stored in a short notation (`kubernetes.json`), those of Shoal's kinds
are generated from their types. Patches use them to merge lists, the API server to validate and document
fields, and `protobuf` to decode objects.
"""
