"""The embedded home: objects in one SQLite file, in this process."""
