"""What an API server does with an object of each kind before it keeps it: defaults, admission, validation."""
