"""The kinds: types, defaults, validation, quantities, CRD schemas."""
