"""Input of the commands: options, files, names of objects, and the session with a cluster."""
