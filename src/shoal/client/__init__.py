"""A small client for commands: one request after another, without an event loop and quick to import.

What lasts speaks through `shoal.cluster`, many requests at once. A command asks a few things and prints them,
and what a person notices is how soon it begins: nothing here imports asyncio, aiohttp or a client library.
"""
