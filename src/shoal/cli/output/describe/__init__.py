"""Descriptions of objects for `shoal describe`: their fields, conditions and events.

Some kinds have a description of their own; all others are described field by field.
"""
