"""A small synchronous client for commands: one request after another, and quick to import.

Services use `shoal.cluster`, with many requests at once. A command sends a few requests and prints the
results, and its users notice how soon it starts: except for `exec`, nothing here imports asyncio, aiohttp or
a client library.
"""
