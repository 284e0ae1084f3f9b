"""HTTP endpoints of the manager, apart from the API."""
