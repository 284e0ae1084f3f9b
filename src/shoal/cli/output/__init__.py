"""Output of the commands: tables, JSON and YAML, descriptions, drawings of plans and clusters."""
